// SPDX-License-Identifier: Apache-2.0

// Package traces generates a service's counts of SYNs and completed handshakes for many kinds of traffic, from a seed,
// and replays them to the detector in virtual time. It sends nothing.
package traces

import (
	"math"
	"math/rand/v2"
	"time"

	"tidegate/internal/detect"
)

// Trace is the counts in each period at each address.
type Trace struct {
	Name   string
	Says   string // what happens in the trace
	Period time.Duration
	Counts [][]detect.Counts // by period, by address
	Begins time.Duration     // start of the attack; negative: there is none
	Ends   time.Duration     // its last SYN
	// Within is how soon the attack must be detected; 0: detection is not required.
	Within time.Duration
}

const period = 100 * time.Millisecond

// maker builds a trace.
type maker struct {
	Trace
	rng *rand.Rand
}

func newMaker(name, says string, seed uint64, length time.Duration, addresses int) *maker {
	m := &maker{Trace: Trace{Name: name, Says: says, Period: period, Begins: -1}, rng: rand.New(rand.NewPCG(seed, hash(name)))}
	m.Counts = make([][]detect.Counts, length/period)
	for i := range m.Counts {
		m.Counts[i] = make([]detect.Counts, addresses)
	}
	return m
}

func hash(s string) (h uint64) {
	for _, c := range s {
		h = h*1099511628211 + uint64(c)
	}
	return h
}

// poisson draws from a Poisson distribution.
func (m *maker) poisson(mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*m.rng.NormFloat64())))
	}
	n, p, limit := 0, 1.0, math.Exp(-mean)
	for {
		if p *= m.rng.Float64(); p <= limit {
			return n
		}
		n++
	}
}

// clients simulates real clients that arrive at this rate, over all addresses. The share loss of their packets is lost, and SYNs
// are retransmitted after one second, then two. A handshake takes a round-trip time: 80 ms in the median, more than 400 ms for one in a hundred.
func (m *maker) clients(rate func(t time.Duration) float64, loss float64) {
	for i := range m.Counts {
		at := time.Duration(i) * period
		for range m.poisson(rate(at) * period.Seconds()) {
			m.client(at+time.Duration(m.rng.Int64N(int64(period))), m.rng.IntN(len(m.Counts[i])), loss)
		}
	}
}

func (m *maker) client(at time.Duration, address int, loss float64) {
	rtt := time.Duration(80e6 * math.Exp(0.7*m.rng.NormFloat64()))
	for wait := time.Second; wait < 8*time.Second; wait *= 2 {
		if m.rng.Float64() >= loss { // the SYN arrives
			m.count(at, address, 1, 0)
			if m.rng.Float64() >= 2*loss { // so do SYN-ACK and ACK
				m.count(at+rtt, address, 0, 1)
				return
			}
		}
		at += wait
	}
}

func (m *maker) count(at time.Duration, address, syns, done int) {
	if i := int(at / period); i < len(m.Counts) {
		m.Counts[i][address].SYNs += uint64(syns)
		m.Counts[i][address].Done += uint64(done)
	}
}

// flood adds SYNs that are never completed, to addresses in turn.
func (m *maker) flood(begins, ends time.Duration, addresses int, rate func(t time.Duration) float64) {
	m.Begins, m.Ends = begins, ends
	next := 0
	for at := begins; at < ends; at += period {
		for range m.poisson(rate(at-begins) * period.Seconds()) {
			m.count(at, next, 1, 0)
			next = (next + 1) % addresses
		}
	}
}

func always(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// All generates every trace.
func All(seed uint64) []Trace {
	const minute = time.Minute
	var list []Trace
	add := func(m *maker, within time.Duration) {
		m.Within = within
		list = append(list, m.Trace)
	}
	m := newMaker("steady", "200 connections a second", seed, 10*minute, 4)
	m.clients(always(200), 0.01)
	add(m, 0)

	m = newMaker("diurnal", "20 to 2,000 connections a second and back, in 20 minutes instead of a day", seed, 20*minute, 4)
	m.clients(func(t time.Duration) float64 {
		return 20 + 1980*math.Pow(math.Sin(math.Pi*float64(t)/float64(20*minute)), 2)
	}, 0.01)
	add(m, 0)

	m = newMaker("flash-crowd", "50 connections a second; after a minute suddenly 10,000, 3 % of packets lost, for a minute", seed, 4*minute, 4)
	m.clients(func(t time.Duration) float64 {
		if t >= minute && t < 2*minute {
			return 10_000
		}
		return 50
	}, 0.03)
	add(m, 0)

	m = newMaker("port-scan", "an unused service; 10 SYNs a second, none of them completed", seed, 5*minute, 4)
	m.flood(0, 5*minute, 4, always(10))
	m.Begins = -1
	add(m, 0)

	m = newMaker("flood", "200 connections a second; a flood of 10,000 SYNs a second", seed, 3*minute, 4)
	m.clients(always(200), 0.01)
	m.flood(minute, 2*minute, 1, always(10_000))
	add(m, time.Second)

	m = newMaker("flood-on-large", "40,000 connections a second; a flood of 10,000 SYNs a second", seed, minute, 4)
	m.clients(always(40_000), 0.01)
	m.flood(minute/2, 3*minute/4, 1, always(10_000))
	add(m, time.Second)

	m = newMaker("flash-crowd-and-flood", "a flood of 10,000 SYNs a second inside the flash crowd", seed, 3*minute, 4)
	m.clients(func(t time.Duration) float64 {
		if t >= minute {
			return 5000
		}
		return 50
	}, 0.02)
	m.flood(3*minute/2, 2*minute, 1, always(10_000))
	add(m, time.Second)

	m = newMaker("slow-ramp", "200 connections a second; a flood that grows from nothing to 10,000 SYNs a second in five minutes", seed, 8*minute, 4)
	m.clients(always(200), 0.01)
	m.flood(minute, 6*minute, 1, func(t time.Duration) float64 { return 10_000 * float64(t) / float64(5*minute) })
	add(m, 30*time.Second)

	m = newMaker("pulses", "200 connections a second; 20,000 SYNs a second for 0.3 s every 20 s", seed, 6*minute, 4)
	m.clients(always(200), 0.01)
	m.flood(minute, 4*minute, 1, func(t time.Duration) float64 {
		if t%(20*time.Second) < 300*time.Millisecond {
			return 20_000
		}
		return 0
	})
	m.Ends = minute + 8*20*time.Second + 300*time.Millisecond
	add(m, time.Second)

	m = newMaker("carpet", "1,000 connections a second to a /24; 10,000 SYNs a second over all its addresses", seed, 3*minute, 256)
	m.clients(always(1000), 0.01)
	m.flood(minute, 2*minute, 256, always(10_000))
	add(m, time.Second)
	return list
}

// Result is the detector's result for a trace.
type Result struct {
	Name        string  `json:"trace"`
	Says        string  `json:"description"`
	Attack      bool    `json:"attack"`
	Detected    bool    `json:"detected"`
	DelayMs     int64   `json:"delay_ms"`      // from the attack's first SYN
	WithinMs    int64   `json:"within_ms"`     // the bound
	FalseAlarms int     `json:"false_alarms"`  // periods of protection without an attack
	Switches    int     `json:"switches"`      // on and off switches
	OffAfterMs  int64   `json:"off_after_ms"`  // from the attack's last SYN; -1: never
	OnlyPrefix  bool    `json:"only_prefixes"` // it protected only the prefixes under attack
	MaxY        float64 `json:"max_y"`         // without an attack
	Points      []Point `json:"-"`
}

// Point is the detector's input and state in one period, for a plot.
type Point struct {
	T              time.Duration
	SYNs, Done     uint64
	detect.Reading `json:"-"`
}

// Good reports whether the result is right.
func (r *Result) Good() bool {
	return r.FalseAlarms == 0 && (!r.Attack || r.Detected && r.DelayMs <= r.WithinMs && r.OffAfterMs >= 0)
}

// offWait is how long after a trace, without any traffic, the detector may take to switch off.
const offWait = 15 * time.Minute

// Replay plays a trace to the detector.
func Replay(t Trace, p detect.Params) Result {
	r := Result{Name: t.Name, Says: t.Says, Attack: t.Begins >= 0, WithinMs: t.Within.Milliseconds(), OffAfterMs: -1, OnlyPrefix: true}
	s := detect.NewService(p)
	was := false
	step := func(now time.Duration, row []detect.Counts) {
		var total detect.Counts
		prefixes := map[int]detect.Counts{}
		for at, c := range row {
			total.SYNs, total.Done = total.SYNs+c.SYNs, total.Done+c.Done
			if c != (detect.Counts{}) {
				prefixes[at] = c
			}
		}
		d := s.Step(total, prefixes, t.Period)
		read := s.Read()
		attacked := r.Attack && now > t.Begins && now <= t.Ends+t.Period+p.Patience
		if d.On() != was {
			was = d.On()
			r.Switches++
			switch {
			case was && !attacked:
				r.FalseAlarms++
			case was && !r.Detected:
				r.Detected, r.DelayMs = true, (now - t.Begins).Milliseconds()
			case !was && r.Attack && now > t.Ends:
				r.OffAfterMs = (now - t.Ends).Milliseconds()
			}
		}
		if d.All {
			r.OnlyPrefix = false
		}
		if !attacked && !was {
			r.MaxY = max(r.MaxY, read.Y)
		}
		r.Points = append(r.Points, Point{T: now, SYNs: total.SYNs, Done: total.Done, Reading: read})
	}
	now := time.Duration(0)
	for _, row := range t.Counts {
		now += t.Period
		step(now, row)
	}
	points := r.Points
	for end := now + offWait; was && now < end; {
		now += t.Period
		step(now, nil)
	}
	r.Points = points
	return r
}
