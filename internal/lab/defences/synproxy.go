// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"tidegate/internal/lab/rig"
)

// synproxySYNs reads the number of SYNs that nftables' SYNPROXY answered with a cookie.
func synproxySYNs(n *rig.Namespace) (uint64, error) {
	var data []byte
	err := n.Do(func() (err error) {
		data, err = os.ReadFile("/proc/thread-self/net/stat/synproxy")
		return err
	})
	if err != nil {
		return 0, err
	}
	return parseSynproxy(string(data))
}

// parseSynproxy sums column syn_received, hexadecimal, one line for each CPU.
func parseSynproxy(stat string) (uint64, error) {
	column, sum := -1, uint64(0)
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if column < 0 {
			for i, name := range f {
				if name == "syn_received" {
					column = i
				}
			}
			if column < 0 {
				return 0, fmt.Errorf("synproxy statistics have no syn_received: %q", line)
			}
			continue
		}
		if column >= len(f) {
			continue
		}
		v, err := strconv.ParseUint(f[column], 16, 64)
		if err != nil {
			return 0, fmt.Errorf("synproxy statistics: %w", err)
		}
		sum += v
	}
	return sum, nil
}
