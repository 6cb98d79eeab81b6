// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// countingPath is a packet path under a flood to one place of service 1.
type countingPath struct {
	syns    uint64
	entry   plane.Service
	on      map[int]bool
	changes int // that were ended
}

const floodedPlace = 17

func (p *countingPath) Places() ([]plane.Place, error) {
	return []plane.Place{{At: floodedPlace, SYNs: p.syns, Service: 1}}, nil
}

func (p *countingPath) ReadCounters(uint32) (row [schema.NumCounters]uint64, _ error) {
	row[schema.CounterSyn], row[schema.CounterDetectSyn] = p.syns, p.syns
	return row, nil
}

func (p *countingPath) Service(uint32) (plane.Service, error)      { return p.entry, nil }
func (p *countingPath) SetService(_ uint32, e plane.Service) error { p.entry = e; return nil }
func (p *countingPath) Enforce() error                             { p.changes++; return nil }
func (p *countingPath) AnswerPlace(at int, on bool) error          { p.on[at] = on; return nil }
func (p *countingPath) flood(t *testing.T, a *Automatic, more uint64) {
	t.Helper()
	p.syns += more
	if err := a.step(p, time.Now(), detectEvery); err != nil {
		t.Fatal(err)
	}
}

// A place that was answered for a service is not any more when the service has another mode, is gone, or is in mode auto again: nobody
// would check the ACKs of clients that get cookies there.
func TestPlacesOfServicesThatLeaveAuto(t *testing.T) {
	for name, meanwhile := range map[string][]config.Service{"another mode": {{Name: "web", Mode: config.ModeAlways}}, "gone": nil,
		"another service": {{Name: "mail", Mode: config.ModeAuto}}} {
		opt := Options{StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
		a := NewAutomatic(opt, &config.Config{Instance: "test", Epoch: time.Second})
		p := &countingPath{on: map[int]bool{}}
		web := []config.Service{{Name: "web", Mode: config.ModeAuto}}
		number := func(string) uint32 { return 1 }
		a.Assign(&config.Config{Services: web}, number)
		for range 5 {
			p.flood(t, a, 1000)
		}
		if on := slices.Collect(maps.Keys(p.on)); !slices.Equal(on, []int{floodedPlace}) || !p.on[floodedPlace] || p.entry.Verify != 1 {
			t.Fatalf("%s: under the flood, places %v are on, and the entry is %+v", name, p.on, p.entry)
		}
		a.Assign(&config.Config{Services: meanwhile}, number)
		a.Assign(&config.Config{Services: web}, number)
		changes := p.changes
		p.flood(t, a, 0)
		if p.on[floodedPlace] || p.changes == changes {
			t.Errorf("%s: the place is still answered for; %d changes were ended", name, p.changes-changes)
		}
		for range 5 { // and it is attacked again
			p.flood(t, a, 1000)
		}
		if !p.on[floodedPlace] {
			t.Errorf("%s: the place is attacked, and not answered for", name)
		}
		a.Assign(&config.Config{}, number)
	}
}
