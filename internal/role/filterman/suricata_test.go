// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/upstream"
)

// grown reads a growing file: io.EOF at its current end.
type grown struct{ bytes.Buffer }

func eveRig(t *testing.T) (*follower, *grown, *[]string) {
	t.Helper()
	authority := &upstream.Static{}
	m := NewManager(Options{Authority: authority, Own: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, Log: slog.New(slog.DiscardHandler)})
	var asked []string
	f := &follower{m: m, log: m.opt.Log, add: func(list []Request) []error {
		for _, r := range list {
			asked = append(asked, r.Src.String())
		}
		return make([]error, len(list))
	}}
	file := &grown{}
	f.in = bufio.NewReaderSize(file, 1<<16)
	return f, file, &asked
}

func alert(src string) string {
	return fmt.Sprintf(`{"event_type":"alert","src_ip":%q,"dest_ip":"198.51.100.1","alert":{"metadata":{"tidegate":["block"],"tidegate_witness":["ts"]}}}`, src)
}

// An endless line costs a bounded amount of memory, is counted once, and the lines
// after it are read.
func TestLineWithoutEnd(t *testing.T) {
	f, file, asked := eveRig(t)
	most := 0
	read := func() {
		for f.lines() > 0 || file.Len() > 0 {
			most = max(most, cap(f.partial))
		}
		most = max(most, cap(f.partial))
	}
	file.WriteString(alert("10.1.0.1") + "\n" + alert("10.1.0.2")[:20])
	read()
	file.WriteString(alert("10.1.0.2")[20:] + "\n")
	read()
	chunk := strings.Repeat("x", 1<<18)
	for range 64 { // 16 MiB
		file.WriteString(chunk)
		read()
	}
	if f.m.EVESkipped.Load() != 1 {
		t.Errorf("%d lines counted as too long", f.m.EVESkipped.Load())
	}
	file.WriteString(alert("10.1.0.66") + "\n" + alert("10.1.0.3") + "\n") // the first still belongs to the long line
	read()
	file.WriteString(strings.Repeat("y", eveLineMax+1) + "\n" + alert("10.1.0.4") + "\n")
	read()
	long := alert("10.1.0.5")
	file.WriteString(long[:len(long)-1] + strings.Repeat(" ", eveLineMax-len(long)-1) + "}\n")
	read()
	if got := strings.Join(*asked, " "); got != "10.1.0.1/32 10.1.0.2/32 10.1.0.3/32 10.1.0.4/32 10.1.0.5/32" {
		t.Errorf("asked for %s", got)
	}
	if f.m.EVESkipped.Load() != 2 || most > 4*eveLineMax {
		t.Errorf("%d lines skipped, up to %d bytes kept", f.m.EVESkipped.Load(), most)
	}
}

// A file that is replaced in the middle of a long line is read from its beginning.
func TestReplacedInTheMiddle(t *testing.T) {
	f, file, asked := eveRig(t)
	file.WriteString(strings.Repeat("z", 2*eveLineMax))
	for f.lines() > 0 || file.Len() > 0 {
	}
	f.begin(strings.NewReader(alert("10.1.0.9") + "\n"))
	f.lines()
	if len(*asked) != 1 {
		t.Errorf("asked for %v", *asked)
	}
}
