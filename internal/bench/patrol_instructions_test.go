// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/netip"
	"testing"

	"tidegate/internal/bpfcount"
	"tidegate/internal/plane"
	"tidegate/internal/plane/patrolbpf"
	"tidegate/internal/role/patrol"
)

// What an allowed source costs at a patrol: as much among 100,000 prefixes as alone, but for the bits of a /18
// that is neither allowed nor forbidden as a whole.
func TestInstructionsOfPatrol(t *testing.T) {
	needRoot(t)
	p, err := plane.LoadPatrol(plane.PatrolOptions{Buckets: patrol.BucketsFor(100), Codepoint: 47})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	filters, err := patrol.NewFilters(p, 47, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetPort(1, plane.PatrolPort{}); err != nil {
		t.Fatal(err)
	}
	prog, _ := p.Programs()
	maps := bpfcount.MapsOf(t, prog)
	spec, err := patrolbpf.LoadPatrolXdp()
	if err != nil {
		t.Fatal(err)
	}
	frame := synFrame("v4", nil)
	src := netip.AddrFrom4([4]byte(frame[26:30]))
	many := make([]netip.Prefix, 0, 100_000)
	for i := range cap(many) - 1 {
		many = append(many, netip.PrefixFrom(source(i), 24))
	}
	for _, c := range []struct {
		name string
		list []netip.Prefix
		most int
	}{
		{"a source in a /8", []netip.Prefix{netip.PrefixFrom(src, 8).Masked()}, 205},
		{"a source in a /24", []netip.Prefix{netip.PrefixFrom(src, 24).Masked()}, 242},
		{"a source in one of 100,000 /24s", append(many, netip.PrefixFrom(src, 24).Masked()), 241},
		{"a source in a /32", []netip.Prefix{netip.PrefixFrom(src, 32)}, 270},
	} {
		if err := filters.SetSources(c.list); err != nil {
			t.Fatal(err)
		}
		res, err := bpfcount.XDP(spec.Programs[patrolbpf.PatrolXdpProgTgPatrolXdp], maps, frame, 1)
		if err != nil {
			t.Fatal(err)
		}
		if res.Action != xdpPass {
			t.Fatalf("%s: action %d, want it to pass", c.name, res.Action)
		}
		within(t, "patrol, "+c.name, res, c.most)
	}
}
