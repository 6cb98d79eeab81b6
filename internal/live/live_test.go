// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/status"
)

func statusOf(counters map[string]uint64) *status.Status {
	return &status.Status{Services: []status.Service{{Name: "web", Mode: "always", Strategy: "cookie", Counters: counters}}}
}

// Rates are differences over the elapsed time; cleared counters, new services and replaced programs give none.
func TestRates(t *testing.T) {
	f, at := New("", "x"), time.Unix(1000, 0)
	f.add(statusOf(map[string]uint64{"syn": 1000, "drop_ack": 7}), []plane.Cost{{Hook: "xdp", Interface: "eth0", Program: 5, Runs: 10, Ns: 1000}}, at, at)
	f.add(statusOf(map[string]uint64{"syn": 3000, "cookie_sent": 1500, "cookie_valid": 10, "drop_ack": 3, "drop_flags": 4}),
		[]plane.Cost{{Hook: "xdp", Interface: "eth0", Program: 5, Runs: 2010, Ns: 201_000}, {Hook: "xdp", Interface: "eth1", Program: 5, Runs: 2010, Ns: 201_000}},
		at.Add(2*time.Second), at.Add(2*time.Second))
	v := f.View()
	if len(v.Points) != 1 {
		t.Fatalf("%d points, want 1", len(v.Points))
	}
	s := v.Points[0].Services[0]
	if s.SYN != 1000 || s.Answered != 750 || s.Verified != 5 || s.Dropped != 2 || s.How != "cookie" {
		t.Errorf("rates %+v", s)
	}
	if s.Reasons[0].Counter != "syn" || len(s.Reasons) != 4 {
		t.Errorf("reasons %+v, want four, syn first", s.Reasons)
	}
	if c := v.Points[0].Cost; len(c) != 1 || c[0].Ns != 100 || c[0].Packets != 1000 || c[0].Processor != 0.0001 {
		t.Errorf("cost %+v, want 1000 packets a second at 100 ns, once", c)
	}
	f.add(statusOf(map[string]uint64{"syn": 3000}), []plane.Cost{{Hook: "xdp", Interface: "eth0", Program: 6, Runs: 9, Ns: 900}}, at.Add(3*time.Second), at.Add(3*time.Second))
	if p := f.View().Points[1]; len(p.Cost) != 0 || p.Services[0].Dropped != 0 {
		t.Errorf("a replaced program and cleared counters gave %+v", p)
	}
}

// The history is bounded.
func TestKept(t *testing.T) {
	f := New("", "x")
	for i := range pointsKept + 50 {
		f.add(statusOf(map[string]uint64{"syn": uint64(i)}), nil, time.Unix(int64(i), 0), time.Unix(int64(i), 0))
	}
	if n := len(f.View().Points); n != pointsKept {
		t.Errorf("%d points are kept, want %d", n, pointsKept)
	}
}
