// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// A single client makes connection after connection, all of which are served without a flood; where nothing answers it, it
// waits for its timeout before the next.
func TestOneClient(t *testing.T) {
	world.NeedRoot(t)
	o := DefaultOptions().Base
	o.Alone = false                                                                                       // other packages' tests run, too
	o.Defence, o.Exe, o.Server, o.Timeout = defences.Kernel, tidegate, load.ServerBuiltin, 20*time.Second // enough for a busy machine
	s, err := newStand(t.Context(), o, 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	const during = 400 * time.Millisecond
	most := int(during/oneClientPause) + 1
	for _, rate := range []load.Rate{0, 2000} {
		one, err := s.oneClient(t.Context(), rate, during)
		if err != nil {
			t.Fatal(err)
		}
		if one.OK < 1 || one.OK != one.Requests || one.OK > most || (one.Offered > 0) != (rate > 0) {
			t.Errorf("at %s SYN/s: %+v, want 1 to %d connections, all served", rate, one, most)
		}
	}
	// The evenly spaced load is unchanged by it.
	if p, err := s.at(t.Context(), 0); err != nil || p.Requests != int(o.Load*o.Duration.Seconds()) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOneClientUnanswered(t *testing.T) {
	world.NeedRoot(t)
	o := DefaultOptions().Base
	o.Alone = false                                 // other packages' tests run, too
	o.Defence, o.Timeout = "", 100*time.Millisecond // no defence, no server
	s, err := newStand(t.Context(), o, 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	drop, err := s.dropAll()
	if err != nil {
		t.Fatal(err)
	}
	_, res, err := s.flood.RunWithOneClient(t.Context(), 0, load.OneClient{For: 350 * time.Millisecond, Pause: oneClientPause})
	if err := errors.Join(err, drop.Close()); err != nil {
		t.Fatal(err)
	}
	if res.OK != 0 || res.Requests < 1 || res.Requests > 3 { // each takes 110 ms; a fourth was under way
		t.Errorf("%+v, want 1 to 3 requests, none served", res)
	}
}

// Loss is the victim's only if its processor was busy.
func TestVictimIdle(t *testing.T) {
	for _, c := range []struct {
		p    Point
		want bool
	}{{Point{Offered: 3e6, Lost: 1e6, VictimCPU: 0.6}, true}, {Point{Offered: 3e6, Lost: 1e6, VictimCPU: 0.88}, false}, {Point{Offered: 1e6, Lost: 100, VictimCPU: 0.5}, false}} {
		if c.p.VictimIdle() != c.want {
			t.Errorf("%+v: idle %v", c.p, !c.want)
		}
	}
}
