// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/bpfcount"
	"tidegate/internal/plane"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/sourcelist"
)

// What a list of 100,000 single addresses costs a SYN: blocks of one cache line each and calls, which are most of its time, and instructions.
func TestInstructionsOfLists(t *testing.T) {
	gate := hostGate(t)
	xdp, _ := gate.Programs()
	frame := synFrame("v4-ts", nil)
	src := netip.AddrFrom4([4]byte(frame[26:30]))
	count := func() *bpfcount.Result {
		return spent(t, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, bpfcount.MapsOf(t, xdp), frame, 1)
	}
	without := count()
	for _, c := range []struct {
		name   string
		more   []netip.Prefix
		blocks int
		most   int
	}{
		{"a source that no entry is near", nil, 0, 46},
		{"a source that is listed", []netip.Prefix{netip.PrefixFrom(src, 32)}, 2, 130},
		{"a source beside one that is listed", []netip.Prefix{netip.PrefixFrom(src.Next(), 32)}, 2, 150},
		{"a source in a network that is listed", []netip.Prefix{netip.PrefixFrom(src, 24)}, 7, 346},
	} {
		var entries []sourcelist.Entry
		for i := range 100_000 {
			p := netip.PrefixFrom(source(i).Next(), 32)
			if netip.PrefixFrom(src, 24).Contains(p.Addr()) {
				continue
			}
			entries = append(entries, sourcelist.NewEntry(p, sourcelist.Deny))
		}
		for _, p := range c.more {
			entries = append(entries, sourcelist.NewEntry(p, sourcelist.Allow))
		}
		table, err := sourcelist.Build(entries)
		if err != nil {
			t.Fatal(err)
		}
		list, err := plane.NewList(table)
		if err != nil {
			t.Fatal(err)
		}
		var s plane.Settings
		settings := gate.Map(plane.VarSettings)
		if err := settings.Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		s.Lists = 1
		if err := gate.SetList(list); err != nil {
			t.Fatal(err)
		}
		if err := gate.SetSettings(&s); err != nil {
			t.Fatal(err)
		}
		res := count()
		blocks := 0
		for call, n := range res.Calls {
			if strings.HasPrefix(call, "look-up in "+hostbpf.HostXdpMapTgLists+"/") {
				blocks += n
			}
		}
		if blocks > c.blocks {
			t.Errorf("%s: %d blocks, at most %d wanted: %v", c.name, blocks, c.blocks, res.Calls)
		}
		if c.blocks == 0 {
			calls(t, c.name, res, 0)
		}
		if more := res.Instructions - without.Instructions; more > c.most {
			t.Errorf("%s: %d instructions more than without lists, at most %d wanted", c.name, more, c.most)
		} else {
			t.Logf("%s: %d instructions, %d blocks", c.name, more, blocks)
		}
	}
}
