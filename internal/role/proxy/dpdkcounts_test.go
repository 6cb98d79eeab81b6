// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"slices"
	"testing"

	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

var _ instance.Counting = (*dpdkCounts)(nil)

// refusing is a control socket that refuses changes while err is set.
type refusing struct {
	err   error
	taken [][]string
}

func (r *refusing) Counts() (*dpdk.Counts, error) {
	return &dpdk.Counts{Services: map[uint32][schema.NumCounters]uint64{4: {schema.CounterSyn: 9}}, Places: []plane.Place{{At: 5, SYNs: 3}}}, nil
}

func (r *refusing) Apply(lines []string) error {
	if r.err == nil {
		r.taken = append(r.taken, lines)
	}
	return r.err
}

// A change is sent whole, and once; one that is refused, at the next reading. What the configuration has sent since is not undone.
func TestDPDKCounts(t *testing.T) {
	r := &refusing{err: errors.New("the cores have not taken the last changes yet")}
	c := newDPDKCounts(r)
	how := map[uint32]dpdk.How{4: {Strategy: 1}}
	c.sent([]plane.Target{{ID: 4, Service: plane.Service{MssV4: 1460, Mode: plane.ModeAuto, Automatic: 1}}}, how)
	e, err := c.Service(4)
	if err != nil {
		t.Fatal(err)
	}
	e.Mode, e.Verify = plane.ModeAlways, 1
	if err := errors.Join(c.SetService(4, e), c.AnswerPlace(9, true), c.AnswerPlace(7, true), c.AnswerPlace(9, false)); err != nil {
		t.Fatal(err)
	}
	if len(r.taken) != 0 || c.Enforce() == nil {
		t.Errorf("sent too early: %q; or the refusal was lost", r.taken)
	}
	if _, err := c.Places(); err == nil {
		t.Error("the refusal was lost")
	}
	r.err = nil
	places, err := c.Places()
	if err != nil || len(places) != 1 || places[0].At != 5 {
		t.Errorf("%v, %v", places, err)
	}
	want := []string{dpdk.ServiceLine(4, &e, how[4]), "place 7 1", "place 9 0"}
	if len(r.taken) != 1 || !slices.Equal(r.taken[0], want) {
		t.Errorf("sent %q, want %q", r.taken, want)
	}
	if row, err := c.ReadCounters(4); err != nil || row[schema.CounterSyn] != 9 {
		t.Errorf("%v, %v", row[schema.CounterSyn], err)
	}
	if _, err := c.ReadCounters(5); err == nil {
		t.Error("counts of no service")
	}
	if err := c.Enforce(); err != nil || len(r.taken) != 1 {
		t.Errorf("sent again: %q, %v", r.taken, err)
	}

	_ = c.SetService(4, e)
	c.sent([]plane.Target{{ID: 4}}, how)
	if err := c.Enforce(); err != nil || len(r.taken) != 1 {
		t.Errorf("an entry that is no longer in force was sent: %q, %v", r.taken, err)
	}
	c.sent(nil, nil)
	if _, err := c.Service(4); err == nil {
		t.Error("a service that is gone")
	}
}
