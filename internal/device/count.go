// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Counts are instructions of the Cortex-M3 from the moment that a frame is in
// a pbuf until lwIP has processed it, including its answer; the driver's FIFO
// loops are not counted. The same image gives the same counts on any machine.
type Counts struct {
	SYN    int `json:"insn_per_syn"`     // a SYN that finds the queue full
	ACK    int `json:"insn_per_ack"`     // the ACK that opens a connection; 0: none could
	BadACK int `json:"insn_per_bad_ack"` // an ACK of no connection, answered by a RST
	RST    int `json:"insn_per_rst"`     // a SYN to a closed port: lwIP's own shortest answer
}

// Count runs the firmware's own benchmark in QEMU, without a network.
func Count(ctx context.Context, image string, c Config) (Counts, error) {
	args, err := arguments(c, "bench=1")
	if err != nil {
		return Counts{}, err
	}
	// A known secret: the counts must not depend on it, and need no
	// randomness.
	args[1] = "secret=" + strings.Repeat("5a", 32)
	argv := qemu(image, "none", args)
	for i, a := range argv {
		if strings.HasPrefix(a, "shift=") {
			argv[i] = "shift=6" // 64 ns: more than one tick of the counter
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	if err != nil {
		return Counts{}, fmt.Errorf("count instructions of %s: %w: %s", c, err, lastLine(out))
	}
	return parseCounts(lastLine(out))
}

// parseCounts reads "bench name=value ...".
func parseCounts(line string) (Counts, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "bench" {
		return Counts{}, fmt.Errorf("the device printed no counts: %q", line)
	}
	values := map[string]int{}
	for _, f := range fields[1:] {
		name, text, _ := strings.Cut(f, "=")
		v, err := strconv.Atoi(text)
		if err != nil {
			return Counts{}, fmt.Errorf("the device printed %q: want name=number", f)
		}
		values[name] = v
	}
	for _, name := range []string{"syn", "ack", "bad_ack", "rst"} {
		if _, ok := values[name]; !ok {
			return Counts{}, fmt.Errorf("the device printed no %q: %q", name, line)
		}
	}
	return Counts{SYN: values["syn"], ACK: values["ack"], BadACK: values["bad_ack"], RST: values["rst"]}, nil
}
