// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

// send passes one frame to every gate; `build` builds each gate's.
func (c *planesComparison) send(fromServer bool, build func(g *framegen.Generator, gate int) framegen.Frame) (answers []outcome) {
	if c.differs {
		return make([]outcome, len(c.gates))
	}
	c.frames++
	var first framegen.Frame
	for i, g := range c.gates {
		f := build(c.gens[i], i)
		r, err := g.packet(f.Bytes, fromServer)
		if err != nil {
			c.t.Fatalf("%v: %s: %v: %v", c.w, g.name(), f.Traits, err)
		}
		if r.Verdict == vectors.Pass && slices.Equal(r.Out, f.Bytes) {
			r.Out = []byte("as it came") // it contains numbers that the gate chose
		}
		answers = append(answers, r)
		if i == 0 {
			first, first.Bytes = f, slices.Clone(f.Bytes)
			continue
		}
		if d := outcomeDifferences(c.comparableAll(answers[0]), c.comparableAll(r)); len(d) > 0 {
			if !c.limit.IsZero() && time.Now().After(c.limit) {
				c.late++
				c.differs = true
				return answers
			}
			c.differ(fmt.Sprintf("%s: %s, not as %s", c.w.name(), g.name(), c.gates[0].name()), "%v; %v\n frame %x\n%s", c.w, first.Traits, first.Bytes, strings.Join(d, "\n"))
		}
	}
	c.verdicts[answers[0].Verdict]++
	return answers
}

func (c *planesComparison) differ(kind, format string, args ...any) {
	if c.differs = true; c.mayRepeat && time.Since(c.begun) >= planesClocksPart {
		c.parted++
		return
	}
	if c.kinds[kind] < planesShown {
		c.t.Logf("%s\n"+format, append([]any{kind}, args...)...)
	}
	c.kinds[kind]++
}

func (c *planesComparison) comparableAll(o outcome) outcome {
	var all []vectors.Result
	for _, r := range o.all() {
		all = append(all, c.comparable(r))
	}
	return outcome{all[0], all[1:]}
}

// comparable clears what depends on the SYN cache's clock: the number of its SYN-ACK,
// and the numbers of segments to a probed server, which derive from it.
func (c *planesComparison) comparable(r vectors.Result) vectors.Result {
	if slices.ContainsFunc(c.w.services, func(s planesService) bool { return s.strategy == plane.StrategyCache }) {
		if out := slices.Clone(r.Out); clearQuoted(out) {
			r.Out = out
			return r
		}
	}
	tcp := tcpHeader(r.Out)
	caches := func(s planesService) bool {
		return s.strategy == plane.StrategyCache &&
			(binary.BigEndian.Uint16(tcp) == s.port || binary.BigEndian.Uint16(tcp[2:]) == s.port)
	}
	if tcp == nil || !slices.ContainsFunc(c.w.services, caches) {
		return r
	}
	r.Out = slices.Clone(r.Out)
	tcp = tcpHeader(r.Out)
	clear(tcp[4:8])
	clear(tcp[16:18])
	if at := timestampsAt(tcp); at > 0 {
		clear(tcp[at : at+4])
	}
	return r
}

// compareCounters compares every gate's counters with the first one's.
func (c *planesComparison) compareCounters() {
	if c.differs {
		return
	}
	var want vectors.Counters
	var wantPlaces []string
	for i, g := range c.gates {
		got, err := g.counters()
		if err != nil {
			c.t.Fatal(err)
		}
		places, err := g.places()
		if err != nil {
			c.t.Fatal(err)
		}
		if i == 0 {
			wantPlaces = places
		} else if !slices.Equal(places, wantPlaces) {
			c.differ(fmt.Sprintf("%s: %s counts other places than %s", c.w.name(), g.name(), c.gates[0].name()), "%v\n%q, not %q", c.w, places, wantPlaces)
		}
		if i == 0 {
			want = got
			for _, row := range want {
				for name, n := range row {
					c.counted[name] += n
				}
			}
			continue
		}
		if d := vectors.CounterDifferences(want, got); len(d) > 0 {
			c.differ(fmt.Sprintf("%s: %s counts otherwise than %s", c.w.name(), g.name(), c.gates[0].name()), "%v\n%s", c.w, strings.Join(d, "\n"))
		}
	}
}
