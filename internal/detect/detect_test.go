// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"testing"
	"time"
)

// play steps a detector for the given time with the same counts per second; it returns how often the detector switched.
func play(d *Detector, syns, done float64, length time.Duration) (switches int) {
	for at := time.Duration(0); at < length; at += 100 * time.Millisecond {
		was := d.on
		if d.Step(Counts{SYNs: uint64(syns / 10), Done: uint64(done / 10)}, 100*time.Millisecond) != was {
			switches++
		}
	}
	return switches
}

// What X_n and y_n are, by hand: a flood of 3*a*K beside K completed handshakes crosses N after N/(3a-a) periods.
func TestCUSUM(t *testing.T) {
	p := Default()
	p.Hard = 1e9
	d := New(p)
	play(d, 1000, 1000, 2*time.Minute)
	if k := d.K(); k < 999 || k > 1001 || d.y != 0 {
		t.Fatalf("K %v, y %v", k, d.y)
	}
	took := 0
	for ; !d.on && took < 1000; took++ {
		play(d, 1000+3*p.A*1000, 1000, 100*time.Millisecond)
	}
	// 50 periods, and those in which the SYNs begin to run out: 400 ms.
	if want := int(p.N / (2 * p.A)); took < want || took > want+12 {
		t.Errorf("after %d periods, want %d", took, want)
	}
}

// The CUSUM cannot see a flood of less than a*K; the hard limit does.
func TestHardLimit(t *testing.T) {
	p := Default()
	for missing, want := range map[float64]bool{p.Hard * 0.9: false, p.Hard * 1.2: true} {
		d := New(p)
		play(d, 100_000, 100_000, time.Minute)
		play(d, 100_000+missing, 100_000, 20*time.Second)
		if d.on != want {
			t.Errorf("%v of 100,000 not completed: on is %v", missing, d.on)
		}
	}
}

// Pulses with pauses longer than the calm period make that period longer; they do not make the protection flap.
func TestPulsesCannotFlap(t *testing.T) {
	p := Default()
	d := New(p)
	play(d, 200, 200, time.Minute)
	switches := 0
	for range 60 { // an hour
		switches += play(d, 20_000, 0, 300*time.Millisecond)
		switches += play(d, 200, 200, time.Minute-300*time.Millisecond)
	}
	if switches > 5 {
		t.Errorf("%d switches in an hour", switches)
	}
	if d.calm <= p.Calm || d.calm > p.CalmMax {
		t.Errorf("calm period %v", d.calm)
	}
	play(d, 200, 200, 2*p.Forgive)
	if d.on {
		t.Error("on after an hour without an attack")
	}
	play(d, 20_000, 200, time.Second)
	if !d.on || d.calm != p.Calm {
		t.Errorf("the next attack: on %v, calm period %v", d.on, d.calm)
	}
}

// An attacker cannot turn the protection off by completing handshakes beside the flood.
func TestOwnHandshakesDoNotTurnItOff(t *testing.T) {
	d := New(Default())
	play(d, 20_000, 0, 2*time.Second)
	for _, own := range []float64{1000, 10_000, 50_000} {
		play(d, 20_000+own, own, 5*time.Minute)
		if !d.on {
			t.Errorf("off while 20,000 a second are not completed, beside %v that are", own)
		}
	}
}

// A tick that comes late, or a clock that stood still or stepped back, changes nothing.
func TestTicks(t *testing.T) {
	d := New(Default())
	play(d, 200, 200, time.Minute)
	k := d.K()
	d.Step(Counts{SYNs: 40, Done: 40}, 0)
	d.Step(Counts{SYNs: 40, Done: 40}, -time.Hour)
	if d.on || d.K() != k || d.y != 0 {
		t.Errorf("%+v", d.Read())
	}
	if d.Step(Counts{SYNs: 200 * 60, Done: 200 * 60}, time.Minute); d.on {
		t.Error("an alarm because nobody has read for a minute")
	}
	if !d.Step(Counts{SYNs: 10_000 * 2, Done: 400}, 2*time.Second) {
		t.Error("no alarm because the tick was late")
	}
}

// If one address is hit, only SYNs to it are answered; if all are, those to the whole service.
func TestServicePrefixes(t *testing.T) {
	s := NewService(Default())
	step := func(prefixes map[int]Counts) (d Decision) {
		var total Counts
		for _, c := range prefixes {
			total.SYNs, total.Done = total.SYNs+c.SYNs, total.Done+c.Done
		}
		for range 20 {
			d = s.Step(total, prefixes, 100*time.Millisecond)
		}
		return d
	}
	if d := step(map[int]Counts{1: {20, 20}, 2: {20, 20}}); d.On() {
		t.Fatal(d)
	}
	if d := step(map[int]Counts{1: {20, 20}, 2: {1020, 20}}); !d.Equal(Decision{Prefixes: []int{2}}) {
		t.Errorf("one address: %+v", d)
	}
	if top := s.Top(1); len(top) != 1 || top[0].At != 2 {
		t.Errorf("%+v", top)
	}
	carpet := map[int]Counts{}
	for i := range 256 {
		carpet[i] = Counts{SYNs: 4}
	}
	if d := step(carpet); !d.All {
		t.Errorf("all addresses: %+v", d)
	}
	again := NewService(Default())
	again.Resume(Decision{All: true, Prefixes: []int{2}})
	if d := again.Step(Counts{}, nil, 100*time.Millisecond); !d.Equal(Decision{All: true, Prefixes: []int{2}}) {
		t.Errorf("another process goes on with %+v", d)
	}
	for range 10 * 60 * 2 {
		again.Step(Counts{}, nil, 100*time.Millisecond)
	}
	if len(again.prefixes) != 1 { // what has been attacked is remembered
		t.Errorf("%d prefixes", len(again.prefixes))
	}
}

// What is no longer used is forgotten: memory follows what is hit now, which the packet path bounds.
func TestIdlePrefixesAreForgotten(t *testing.T) {
	s := NewService(Default())
	many := map[int]Counts{}
	for i := range 1000 {
		many[i] = Counts{SYNs: 1, Done: 1}
	}
	s.Step(Counts{SYNs: 1000, Done: 1000}, many, 100*time.Millisecond)
	for range 5 * 60 * 10 {
		s.Step(Counts{}, nil, 100*time.Millisecond)
	}
	if len(s.prefixes) != 0 {
		t.Errorf("%d prefixes are remembered", len(s.prefixes))
	}
}
