// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// A neighbour that the kernel has lost is known for ten minutes more, as one that is not confirmed; a gateway is not resolved by that.
func TestRemembersNeighbours(t *testing.T) {
	gateway, client := place{2, netip.MustParseAddr("192.0.2.1")}, place{2, netip.MustParseAddr("192.0.2.9")}
	began := time.Unix(0, 0)
	first := machine()
	first.neighbours[client] = neighbour{Neighbour{Dev: 2, Addr: client.addr, MAC: [6]byte{9}, Sure: true}, true}
	after := func(last *kernel, at time.Duration, valid ...place) *kernel {
		k := machine()
		k.neighbours = map[place]neighbour{client: {Neighbour: Neighbour{Dev: 2, Addr: client.addr}}} // failed: without a MAC address
		for _, p := range valid {
			k.neighbours[p] = first.neighbours[p]
		}
		k.remembered = lost(last, k, began.Add(at))
		return k
	}
	known := func(k *kernel) map[netip.Addr]Neighbour {
		found := map[netip.Addr]Neighbour{}
		for _, n := range build(k, []int{2}).Neighbours {
			found[n.Addr] = n
		}
		return found
	}

	both := after(first, 0)
	want := map[netip.Addr]Neighbour{gateway.addr: {Dev: 2, Addr: gateway.addr, MAC: [6]byte{1}}, client.addr: {Dev: 2, Addr: client.addr, MAC: [6]byte{9}}}
	if got := known(both); !maps.Equal(got, want) {
		t.Errorf("lost: %v, want %v", got, want)
	}
	m := build(both, []int{2})
	if hop := m.to("192.0.2.2", "203.0.113.1"); hop.Paths[0].MAC != [6]byte{} || !slices.Contains(m.Unresolved, Neighbour{Dev: 2, Addr: gateway.addr}) {
		t.Errorf("a lost gateway: %+v, asked for: %v", hop, m.Unresolved)
	}
	if got := known(after(both, remember-1)); !maps.Equal(got, want) {
		t.Errorf("just before the end: %v, want %v", got, want)
	}
	if got := known(after(both, remember)); len(got) != 0 {
		t.Errorf("at the end: %v", got)
	}
	again := after(both, time.Minute, client)
	if got := known(again)[client.addr]; !got.Sure || len(again.remembered) != 1 {
		t.Errorf("known again: %v, remembered %v", got, again.remembered)
	}
	gone := machine()
	gone.neighbours, gone.links = nil, map[int]link{3: {name: "b"}}
	if got := lost(first, gone, began); len(got) != 0 {
		t.Errorf("of an interface that is gone: %v", got)
	}
}
