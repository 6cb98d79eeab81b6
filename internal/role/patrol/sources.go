// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"net/netip"

	"tidegate/internal/plane/patrolbpf"
)

// The words of one generation, as in core/patrol.h: a root for each /14, then leaves.
const (
	sourceRoots = 1 << 14
	sourceWords = sourceRoots + 1<<18
	rootFlags   = 16
	rootFirst   = 32
)

// sourceTable is a set of prefixes in the form that packets look up.
type sourceTable struct {
	words  []uint64             // roots and leaves in use
	part   map[uint32][4]uint64 // by /24
	v6     []netip.Prefix
	lensV6 []uint8
}

// buildSources makes the table of allowed sources. Prefixes may overlap.
func buildSources(prefixes []netip.Prefix) *sourceTable {
	t := &sourceTable{part: map[uint32][4]uint64{}}
	whole := make([]uint64, 1<<18) // a bit for each /24
	seen := map[uint8]bool{}
	for _, p := range prefixes {
		if !p.Addr().Is4() {
			t.v6 = append(t.v6, p)
			if n := uint8(p.Bits()); !seen[n] {
				seen[n] = true
				t.lensV6 = append(t.lensV6, n)
			}
			continue
		}
		b := p.Addr().As4()
		first := binary.BigEndian.Uint32(b[:])
		switch {
		case p.Bits() <= 18:
			for i := range uint32(1) << (18 - p.Bits()) {
				whole[first>>14+i] = ^uint64(0)
			}
		case p.Bits() <= 24:
			n := 1 << (24 - p.Bits()) // at most 32
			whole[first>>14] |= (1<<n - 1) << (first >> 8 & 63)
		default:
			bits := t.part[first>>8]
			for i := range uint32(1) << (32 - p.Bits()) {
				last := first&255 + i
				bits[last>>6] |= 1 << (last & 63)
			}
			t.part[first>>8] = bits
		}
	}
	hasPart := map[uint32]bool{} // by /18
	for slash24 := range t.part {
		if whole[slash24>>6]>>(slash24&63)&1 == 1 {
			delete(t.part, slash24)
			continue
		}
		hasPart[slash24>>6] = true
	}
	t.pack(whole, hasPart)
	return t
}

// pack writes roots, and leaves for the /18s that need one.
func (t *sourceTable) pack(whole []uint64, hasPart map[uint32]bool) {
	t.words = make([]uint64, sourceRoots, sourceWords)
	for i, leaf := range whole {
		root, bit := &t.words[i>>4], i&15
		if bit == 0 {
			*root = uint64(len(t.words)-sourceRoots) << rootFirst
		}
		part := hasPart[uint32(i)]
		if part || leaf == ^uint64(0) {
			*root |= 1 << (rootFlags + bit)
		}
		if part || leaf != 0 && leaf != ^uint64(0) {
			*root |= 1 << bit
			t.words = append(t.words, leaf) // within its capacity: no pointer moves
		}
	}
}

// sourceKey6 is the key of an IPv6 prefix in a generation.
func sourceKey6(p netip.Prefix, gen uint32) (k patrolbpf.PatrolXdpTgSourceKey6) {
	k.Addr.D = words(p.Addr())
	k.PrefixLen, k.Gen = uint32(p.Bits()), gen
	return k
}
