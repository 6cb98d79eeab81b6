// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"testing"
	"time"
)

const tenth = 100 * time.Millisecond

// hear has gates 1 to n claim the same each second, for so long; it returns when the sum switched on, or -1.
func hear(s *Sum, own Claim, n int, c Claim, length time.Duration) time.Duration {
	for at := time.Duration(0); at < length; at += tenth {
		if at%time.Second == 0 {
			for i := range n {
				s.Hear(fmt.Sprintf("gate%d", i+1), c)
			}
		}
		if s.Step(own, tenth) {
			return at + tenth
		}
	}
	return -1
}

// A carpet of which each of 20 gates sees too little is seen in the sum within two seconds; it ends after the calm period.
func TestSumSeesWhatNoGateSees(t *testing.T) {
	p := Default()
	share := 12.0 // uncompleted a second at each gate, below A*KMin
	alone := New(p)
	play(alone, 10, 0, time.Minute)
	if alone.on {
		t.Fatal("a gate sees it alone: the test shows nothing")
	}
	s := NewSum(p, 3*time.Second, 2)
	if took := hear(s, Claim{Missing: share}, 19, Claim{Missing: share}, time.Minute); took < 0 || took > 2*time.Second {
		t.Fatalf("seen in the sum after %v", took)
	}
	for at := time.Duration(0); s.Step(Claim{}, tenth); at += tenth { // the others are cut off: their claims expire
		if at > p.Calm+20*time.Second {
			t.Fatal("the attack does not end")
		}
	}
	if left := s.Gates(); len(left) != 0 {
		t.Errorf("claims that have expired: %v", left)
	}
}

// Whatever one gate claims, the sum is on only if it is on without that gate.
func TestOneGateThatLiesAddsNothing(t *testing.T) {
	for _, lie := range []float64{10, 100, 5000, 1e9} {
		s := NewSum(Default(), 3*time.Second, 2)
		for at := time.Duration(0); at < time.Minute; at += tenth {
			for i := range 5 {
				s.Hear(fmt.Sprintf("gate%d", i), Claim{Missing: 2, Done: 100})
			}
			s.Hear("liar", Claim{Missing: lie})
			if s.Step(Claim{Missing: 2, Done: 100}, tenth) {
				t.Fatalf("a claim of %v a second switches the others on after %v", lie, at)
			}
		}
		if got := s.Read().Missing; got > 12.001 { // own and five honest
			t.Errorf("a claim of %v makes the sum %v, want no more than the honest 12", lie, got)
		}
		if first := s.Gates()[0]; first != "liar" {
			t.Errorf("the greatest claim is said to be of %s", first)
		}
	}
	s := NewSum(Default(), 3*time.Second, 2) // two are believed
	if took := hear(s, Claim{Done: 100}, 2, Claim{Missing: 6000}, time.Minute); took < 0 {
		t.Error("two gates that see an attack are not believed")
	}
}

// Completed handshakes add up, too: a busy fleet with losses is not attacked, nor are many idle gates with a port scan each.
func TestSumHasNoFalseAlarm(t *testing.T) {
	for what, c := range map[string]Claim{"busy with losses": {Missing: 30, Done: 1000}, "idle": {}} {
		if took := hear(NewSum(Default(), 3*time.Second, 2), c, 19, c, 5*time.Minute); took >= 0 {
			t.Errorf("%s: an attack after %v", what, took)
		}
	}
}

// A claim that cannot be true is refused, and an unbounded number of names is.
func TestHearRefuses(t *testing.T) {
	s := NewSum(Default(), time.Second, 2)
	for _, c := range []Claim{{Missing: -1}, {Done: -1}, {Missing: math.NaN()}, {Done: math.NaN()}, {Missing: math.Inf(1)}, {Done: 1e11}} {
		if s.Hear("gate1", c) {
			t.Errorf("%+v is believed", c)
		}
	}
	for i := range MaxGates {
		s.Hear(fmt.Sprint(i), Claim{})
	}
	if s.Hear("one more", Claim{}) || !s.Hear("0", Claim{Missing: 1}) {
		t.Error("the bound of gates does not hold, or holds for one that is known")
	}
}
