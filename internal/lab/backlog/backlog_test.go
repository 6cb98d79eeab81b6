// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"os"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
	"tidegate/test/world"
)

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	if code, is := IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// The list keeps its length, its order and every entry that was not dropped; on average a
// drop walks over half of it.
func TestList(t *testing.T) {
	const limit, all = 192, 20_000
	l := newList(limit, 7)
	for i := range uint32(all) {
		l.add(tuple{ip: i}, i, i)
	}
	if l.n != limit || l.Dropped != all-limit {
		t.Fatalf("%d entries, %d dropped", l.n, l.Dropped)
	}
	if mean := float64(l.Walked) / float64(l.Dropped); mean < 0.48*limit || mean > 0.52*limit {
		t.Errorf("a drop walks over %.1f entries of %d", mean, limit)
	}
	var last *entry
	n := 0
	for e := l.head; e != nil; e = e.next {
		if e.prev != last || last != nil && last.iss >= e.iss {
			t.Fatal("out of order")
		}
		last, n = e, n+1
	}
	if n != limit || last != l.tail || l.tail.iss != all-1 {
		t.Fatalf("%d linked, the last is %d", n, l.tail.iss)
	}
	for l.n > 0 {
		who := l.tail.who
		if l.n%2 == 0 {
			who = l.head.who
		}
		e := l.find(who)
		if e == nil {
			t.Fatal("an entry is not found")
		}
		l.remove(e)
		if l.find(who) != nil {
			t.Fatal("a removed entry is found")
		}
	}
	if l.head != nil || l.tail != nil {
		t.Error("an empty list has ends")
	}
}

// Real clients connect through the list and are served, quietly and under a flood; a full list drops
// an entry for each SYN. A list of one entry drops clients: the emulation does forget.
func TestClients(t *testing.T) {
	world.NeedRoot(t)
	o := Options{Base: trial.DefaultOptions(), Connections: 100, Backlogs: []int{128}, Rates: []load.Rate{0, 5000}}
	o.Base.Load, o.Base.Timeout, o.Base.Clients = 200, 5*time.Second, 20
	got, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got {
		if c.Connected < 95 || c.Served < 90 {
			t.Errorf("%s at %s: %d connected, %d served: %+v", c.Name, c.Rate, c.Connected, c.Served, c.Errors)
		}
	}
	quiet, flooded := got[0], got[1]
	if quiet.Stats.Dropped != 0 || quiet.Stats.Connected < 100 {
		t.Errorf("without a flood: %+v", quiet.Stats)
	}
	if s := flooded.Stats; s.Dropped < 1000 || s.SYNs < s.Dropped || flooded.Entries() < 80 || flooded.Entries() > 112 {
		t.Errorf("under a flood: %+v, %.1f entries a drop, want about 96", s, flooded.Entries())
	}
	o.Backlogs, o.Rates = []int{1}, []load.Rate{200_000} // a SYN every 5 µs: less than a client takes
	if got, err = Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if c := got[0]; c.Stats.Unknown == 0 {
		t.Errorf("a list of one entry forgot nobody: %+v", c.Stats)
	}
}
