// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Result is what a gate did with one packet.
type Result struct {
	Verdict Verdict
	Out     []byte  // the frame as it left the gate; ignored for Drop
	Agreed  *Agreed // for Adopt
}

// Gate is one plane under test.
type Gate interface {
	// Prepare sets clock, keys, services and sockets, and resets all counters.
	Prepare(v *Vector) error
	// Packet passes one frame through the gate.
	Packet(in []byte) (Result, error)
	// Counters returns all counters that are not zero.
	Counters() (Counters, error)
}

// Replay passes a vector through a gate. It returns every difference, one a
// line; an error means that the gate could not be queried.
func Replay(g Gate, v *Vector) (differences []string, err error) {
	if err := g.Prepare(v); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	for i, p := range v.Packets {
		r, err := g.Packet(p.In)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", i, err)
		}
		for _, d := range compare(p, r) {
			differences = append(differences, fmt.Sprintf("packet %d: %s", i, d))
		}
	}
	got, err := g.Counters()
	if err != nil {
		return nil, fmt.Errorf("counters: %w", err)
	}
	return append(differences, CounterDifferences(v.Counters, got)...), nil
}

func compare(want Packet, got Result) []string {
	if got.Verdict != want.Verdict {
		return []string{fmt.Sprintf("verdict %s, want %s", got.Verdict, want.Verdict)}
	}
	var d []string
	switch want.Verdict {
	case TX:
		d = compareBytes(want.Out, got.Out)
	case Pass, Adopt:
		out := want.In
		if len(want.Out) != 0 { // an edge has changed its TTL
			out = want.Out
		}
		d = compareBytes(out, got.Out)
	}
	if want.Verdict == Adopt {
		if got.Agreed == nil {
			d = append(d, "nothing agreed")
		} else if *got.Agreed != *want.Agreed {
			d = append(d, fmt.Sprintf("agreed %+v, want %+v", *got.Agreed, *want.Agreed))
		}
	}
	return d
}

// Differences compares what two gates did with the same frame.
func Differences(want, got Result) []string {
	if want.Verdict != got.Verdict {
		return []string{fmt.Sprintf("verdict %s, want %s", got.Verdict, want.Verdict)}
	}
	if want.Verdict == Drop {
		return nil
	}
	return compareBytes(want.Out, got.Out)
}

func compareBytes(want, got []byte) []string {
	if bytes.Equal(want, got) {
		return nil
	}
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	return []string{fmt.Sprintf("%d bytes, want %d; differs from byte %d\n got %x\nwant %x",
		len(got), len(want), at, got, want)}
}

// CounterDifferences compares counters; unnamed ones are zero.
func CounterDifferences(want, got Counters) []string {
	var d []string
	ids := slices.Sorted(maps.Keys(want))
	for id := range got {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if !maps.Equal(nonZero(want[id]), nonZero(got[id])) {
			d = append(d, fmt.Sprintf("service %d counted {%s}, want {%s}", id,
				counterText(got[id]), counterText(want[id])))
		}
	}
	return d
}

func nonZero(m map[string]uint64) map[string]uint64 {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(_ string, n uint64) bool { return n == 0 })
	if out == nil {
		out = map[string]uint64{}
	}
	return out
}

func counterText(m map[string]uint64) string {
	var s []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s = append(s, fmt.Sprintf("%s: %d", name, m[name]))
	}
	return strings.Join(s, ", ")
}
