// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var victim = netip.MustParsePrefix("203.0.113.7/32")

// under is what a gate says whose service web is attacked at one address.
func under(rate float64) ServiceClaim {
	c := Claim{Missing: rate}
	return ServiceClaim{Service: "web", Claim: c, Prefixes: []PrefixClaim{{Prefix: victim, On: true, Claim: c}}}
}

// listen has a gate that sees a few SYNs of its own to the victim hear the same every second; it returns the last warning.
func listen(s *Shared, gates map[string]ServiceClaim, length time.Duration) (w Warning) {
	for at := time.Duration(0); at < length; at += tenth {
		if at%time.Second == 0 {
			for gate, c := range gates {
				s.Hear(gate, c)
			}
		}
		w = s.Step(Claim{Missing: 1}, map[netip.Prefix]Claim{victim: {Missing: 1}}, tenth)
	}
	return w
}

// What one gate detects switches the others on for that prefix with a quorum of one, and prepares them with a quorum of two; two gates suffice then. When it is over or they
// are cut off, what follows from it ends.
func TestWordOfOneGate(t *testing.T) {
	for _, c := range []struct {
		quorum, gates int
		on            bool
	}{{1, 1, true}, {2, 1, false}, {2, 2, true}, {3, 2, false}} {
		s := NewShared(Default(), 3*time.Second, c.quorum)
		gates := map[string]ServiceClaim{}
		for i := range c.gates {
			gates[fmt.Sprintf("gate%d", i+1)] = under(10_000)
		}
		w := listen(s, gates, 5*time.Second)
		if on := slices.Equal(w.Prefixes, []netip.Prefix{victim}); on != c.on || w.All {
			t.Errorf("quorum %d, the word of %d: %+v", c.quorum, c.gates, w)
		}
		if !slices.Equal(w.Prepare, []netip.Prefix{victim}) || w.PrepareAll {
			t.Errorf("quorum %d, the word of %d prepares: %+v", c.quorum, c.gates, w)
		}
		if r := s.Read(&w); r.On != c.on || len(r.Attacked) != c.gates || r.Attacked[0] != "gate1" || len(r.Gates) != c.gates || r.LeftOut != min(c.quorum-1, c.gates) {
			t.Errorf("it is said to be the word of others: %+v", r)
		}
		w = listen(s, nil, Default().Calm+time.Minute)
		if len(w.Prefixes)+len(w.Prepare) != 0 || w.All || w.PrepareAll {
			t.Errorf("cut off: %+v", w)
		}
		if r := s.Read(&w); r.On || len(r.Gates)+len(r.Attacked) != 0 {
			t.Errorf("cut off: %+v", r)
		}
	}
}

// A word counts for as long as it was said to, of the service and of a prefix.
func TestWordLives(t *testing.T) {
	for _, life := range []time.Duration{time.Second, 20 * time.Second} {
		s := NewShared(Default(), 3*time.Second, 1)
		s.HearFor("gate1", under(100), life)
		for at := time.Duration(0); at < 30*time.Second; at += tenth {
			s.Step(Claim{}, map[netip.Prefix]Claim{victim: {}}, tenth)
			of := s.prefixes[victim]
			if want, now := at+tenth <= life, len(s.heard) == 1; now != want || len(s.whole.claims) == 1 != want || (of != nil && len(of.claims) == 1) != want {
				t.Fatalf("a word that counts for %v, after %v: %v", life, at+tenth, now)
			}
		}
	}
}

// A carpet over so many addresses that none explains it is answered for the whole service.
func TestSharedCarpetIsOfTheService(t *testing.T) {
	s := NewShared(Default(), 3*time.Second, 2)
	var w Warning
	for range 30 {
		for i := range 19 {
			s.Hear(fmt.Sprint(i), ServiceClaim{Service: "web", Claim: Claim{Missing: 12}, Prefixes: []PrefixClaim{{Prefix: victim, Claim: Claim{Missing: 0.05}}}})
		}
		w = s.Step(Claim{Missing: 12}, map[netip.Prefix]Claim{victim: {Missing: 0.05}}, tenth)
	}
	if !w.All || len(w.Prefixes) != 0 || !w.PrepareAll {
		t.Errorf("%+v", w)
	}
}

// What another sees at a prefix that has no SYNs here switches nothing on: neither is there anything to answer, nor is it the whole service that is attacked.
func TestPrefixThatIsNotSeenHere(t *testing.T) {
	s := NewShared(Default(), 3*time.Second, 1)
	for range 30 {
		s.Hear("gate1", under(10_000))
		if w := s.Step(Claim{}, nil, tenth); w.All || len(w.Prefixes) > 0 {
			t.Fatalf("%+v", w)
		}
	}
	if !s.whole.Read().On {
		t.Error("the sum is not on: the test shows nothing")
	}
}

// Prefixes that this gate has no SYNs to take no memory, whatever others name; nor do those that nobody names any more.
func TestNamesTakeNoMemory(t *testing.T) {
	s := NewShared(Default(), time.Second, 1)
	for i := range 10_000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
		s.Hear(fmt.Sprint(i%10), ServiceClaim{Prefixes: []PrefixClaim{{Prefix: p, On: true, Claim: Claim{Missing: 1e6}}}})
		s.Step(Claim{}, nil, 10*time.Millisecond)
	}
	if len(s.prefixes) != 0 || len(s.heard) > 10 {
		t.Errorf("%d prefixes and %d gates are kept", len(s.prefixes), len(s.heard))
	}
	for i := range 2 * maxSums {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
		s.Hear("gate1", ServiceClaim{Prefixes: []PrefixClaim{{Prefix: p, Claim: Claim{Missing: 1}}}})
		s.Step(Claim{}, map[netip.Prefix]Claim{p: {Missing: 1}}, time.Millisecond)
	}
	if len(s.prefixes) != maxSums {
		t.Errorf("%d sums of prefixes, want at most %d", len(s.prefixes), maxSums)
	}
}

// What no gate can have said is refused, and its last word stays.
func TestSharedRefuses(t *testing.T) {
	s := NewShared(Default(), time.Minute, 1)
	s.Hear("gate1", under(10))
	for what, change := range map[string]func(c *ServiceClaim){
		"a negative rate":             func(c *ServiceClaim) { c.Missing = -1 },
		"a prefix's infinite rate":    func(c *ServiceClaim) { c.Prefixes[0].Done = math.Inf(1) },
		"no prefix":                   func(c *ServiceClaim) { c.Prefixes[0].Prefix = netip.Prefix{} },
		"a prefix with bits below it": func(c *ServiceClaim) { c.Prefixes[0].Prefix = netip.MustParsePrefix("203.0.113.7/24") },
		"too many prefixes":           func(c *ServiceClaim) { c.Prefixes = make([]PrefixClaim, MaxClaimedPrefixes+1) },
	} {
		c := under(10)
		if change(&c); s.Hear("gate1", c) {
			t.Errorf("%s is believed", what)
		}
	}
	if h := s.heard["gate1"]; h == nil || h.Missing != 10 {
		t.Error("the last word is gone")
	}
}

// A prepared detector sees in half a minute what an unprepared one never sees, and ends it likewise.
func TestPrepared(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		s := NewService(Default())
		step := func(syns float64, length time.Duration) (d Decision) {
			for range int(length / time.Second) {
				for i := range 10 {
					s.Prepare(prepared, nil)
					c := Counts{SYNs: uint64(syns) * uint64(i+1) / 10}
					c.SYNs -= uint64(syns) * uint64(i) / 10
					d = s.Step(c, nil, tenth)
				}
			}
			return d
		}
		if d := step(12, time.Minute); d.All != prepared {
			t.Errorf("prepared %v: %+v, %+v", prepared, d, s.Read())
		}
		if d := step(0, Default().Calm+10*time.Second); d.All {
			t.Errorf("prepared %v: it does not end: %+v", prepared, s.Read())
		}
	}
}

// BenchmarkShared is what a service costs ten times a second, where so many other gates say what they see of 16 prefixes each second.
func BenchmarkShared(b *testing.B) {
	for _, gates := range []int{20, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(gates), func(b *testing.B) {
			s := NewShared(Default(), 5*time.Second, 2)
			own := map[netip.Prefix]Claim{}
			c := ServiceClaim{Service: "web", Claim: Claim{Missing: 1, Done: 100}}
			for i := range MaxClaimedPrefixes {
				p := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 32)
				own[p] = Claim{Missing: 0.1, Done: 10}
				c.Prefixes = append(c.Prefixes, PrefixClaim{Prefix: p, Claim: own[p]})
			}
			names := make([]string, gates)
			for i := range names {
				names[i] = fmt.Sprintf("gate%d", i)
			}
			b.ResetTimer()
			for n := range b.N {
				for i := n % 10; i < gates; i += 10 { // a tenth of them speaks in each tenth of a second
					s.Hear(names[i], c)
				}
				w := s.Step(Claim{Missing: 1, Done: 100}, own, tenth)
				s.Read(&w)
			}
		})
	}
}
