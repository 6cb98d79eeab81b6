// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	hexpkg "encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// Counts are what the program has counted for the detector of mode auto, on all cores.
type Counts struct {
	Services map[uint32][schema.NumCounters]uint64 // those in mode auto; only counted
	Places   []plane.Place                         // with SYNs
}

// counted are the counters of a service that the program tells, in its order.
var counted = [...]schema.Counter{schema.CounterSyn, schema.CounterDetectSyn, schema.CounterHandshake, schema.CounterCookieSent,
	schema.CounterChallengeSent, schema.CounterCacheKept}

// PlaceLine is the line that turns answering of SYNs to a place on or off.
func PlaceLine(at int, on bool) string {
	if on {
		return fmt.Sprintf("place %d 1", at)
	}
	return fmt.Sprintf("place %d 0", at)
}

// Counts asks for the counts. They are no part of a change.
func (c *Control) Counts() (*Counts, error) {
	if err := c.conn.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(c.conn, "counts"); err != nil {
		return nil, fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	late := time.After(answerTime)
	counts := &Counts{Services: map[uint32][schema.NumCounters]uint64{}}
	var bad error // the answer is read to its end
	for {
		line, err := c.answer(late)
		if err != nil {
			return nil, err
		}
		if line == "ok" {
			return counts, bad
		}
		if strings.HasPrefix(line, "error: ") {
			return nil, fmt.Errorf("tidegate-dpdk: %s", line)
		}
		if err := counts.take(line); err != nil && bad == nil {
			bad = fmt.Errorf("tidegate-dpdk: its counts: %q: %w; are the two programs of one version?", line, err)
		}
	}
}

// take reads "service ID COUNT..." or "place AT SYNS HANDSHAKES SERVICE FAMILY PREFIX".
func (c *Counts) take(line string) error {
	f := strings.Fields(line)
	if len(f) < 2 {
		return strconv.ErrSyntax
	}
	prefix := ""
	if f[0] == "place" {
		prefix, f = f[len(f)-1], f[:len(f)-1]
	}
	n := make([]uint64, 0, len(counted)+1)
	for _, text := range f[1:] {
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		n = append(n, v)
	}
	switch {
	case f[0] == "service" && len(n) == 1+len(counted):
		var row [schema.NumCounters]uint64
		for i, counter := range counted {
			row[counter] = n[1+i]
		}
		c.Services[uint32(n[0])] = row
		return nil
	case f[0] == "place" && len(n) == 5:
		p, err := placePrefix(n[4], prefix)
		if err != nil {
			return err
		}
		c.Places = append(c.Places, plane.Place{At: int(n[0]), SYNs: n[1], Handshakes: n[2], Service: uint32(n[3]), Prefix: p})
		return nil
	}
	return strconv.ErrSyntax
}

// placePrefix is a place's prefix, whose first eight bytes are in text.
func placePrefix(family uint64, text string) (netip.Prefix, error) {
	var raw [16]byte
	if n, err := hexpkg.Decode(raw[:], []byte(text)[:min(len(text), 2*len(raw))]); err != nil || n != 8 || len(text) != 16 {
		return netip.Prefix{}, strconv.ErrSyntax
	}
	if family == 4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), 32), nil
	}
	return netip.PrefixFrom(netip.AddrFrom16(raw), 64), nil
}
