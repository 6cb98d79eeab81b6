// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// FastNetMon calls a script with: address, direction, packets/s, action; the packets it
// has seen are on the script's input. Lines of packets look like
//
//	2026-11-22 02:00:00.0 192.0.2.1:1234 > 198.51.100.1:80 protocol: udp frag: 0 ...
//
// It does not look at the DSCP; the caller must know whether its traffic carries the mark.

// ParseFastNetMon returns the sources of the listed packets to the address.
func ParseFastNetMon(args []string, details io.Reader, witness Witness) ([]Request, error) {
	if len(args) != 4 {
		return nil, errors.New("want ADDRESS DIRECTION PPS ACTION, as FastNetMon gives them")
	}
	victim, err := netip.ParseAddr(args[0])
	if err != nil {
		return nil, fmt.Errorf("%q is not an address", args[0])
	}
	if args[1] != "incoming" || args[3] == "unban" {
		return nil, nil // filters expire by themselves
	}
	seen := map[netip.Addr]bool{}
	var list []Request
	lines := bufio.NewScanner(io.LimitReader(details, 64<<20))
	for lines.Scan() {
		src, dst, ok := packetLine(lines.Text())
		if !ok || dst != victim || seen[src] {
			continue
		}
		seen[src] = true
		list = append(list, Request{Src: whole(src), Dst: whole(victim), Witness: witness, Detector: "fastnetmon"})
	}
	return list, lines.Err()
}

// packetLine finds `A:P > B:P` in a line.
func packetLine(line string) (src, dst netip.Addr, ok bool) {
	words := strings.Fields(line)
	for i := 1; i+1 < len(words); i++ {
		if words[i] != ">" {
			continue
		}
		a, errA := netip.ParseAddrPort(words[i-1])
		b, errB := netip.ParseAddrPort(words[i+1])
		if errA == nil && errB == nil {
			return a.Addr().Unmap(), b.Addr().Unmap(), true
		}
	}
	return src, dst, false
}
