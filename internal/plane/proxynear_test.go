// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"testing"
	"time"

	"tidegate/internal/plane/proxybpf"
)

// Copies of flows are off while nearly all places are taken, and tried again after a rest, from none.
func TestWatchNear(t *testing.T) {
	p := smallProxy(t)
	if err := p.SetProxy(p.ProxySettings()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	take := func(places int, rest uint64) {
		t.Helper()
		if err := Entries(p.maps[proxybpf.ProxyXdpMapTgFlowsNear], true, func(words []uint64) {
			for at := range places {
				words[at*nearWords+4], words[at*nearWords+6] = uint64(p.own.FlowsTurn)<<32, rest
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(step string, near uint8) {
		t.Helper()
		if err := p.WatchNear(now); err != nil {
			t.Fatal(err)
		}
		var s ProxySettings
		if err := p.Map(VarProxy).Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		if s.Near != near {
			t.Errorf("%s: near %d, want %d", step, s.Near, near)
		}
	}
	places := int(p.Map(proxybpf.ProxyXdpMapTgFlowsNear).MaxEntries())
	want("empty", 1)
	take(places, 0)
	want("all forgotten", 1)
	take(places-places/nearMostOff-1, 1)
	want("one less than too many", 1)
	take(places, 1)
	want("all taken", 0)
	now = now.Add(nearRest - time.Second)
	want("at rest", 0)
	now = now.Add(time.Second)
	want("rested", 1)
	want("those of before are none", 1)
	take(places, 1)
	if err := p.SwapFlows(); err != nil {
		t.Fatal(err)
	}
	want("after a swap", 1)
	take(places, 1)
	if err := p.ForgetNear(); err != nil {
		t.Fatal(err)
	}
	want("after they were ended", 1)
}
