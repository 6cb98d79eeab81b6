// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"net/netip"

	"tidegate/internal/plane/patrolbpf"
)

// sourceWords is TG_SOURCE_WORDS of core/patrol.h.
const sourceWords = 1 << 19

const (
	sourceAll  = 1
	sourcePart = 2
)

// sourceTable is a set of prefixes in the form that packets look up.
type sourceTable struct {
	words  []uint64             // two bits for each /24
	part   map[uint32][4]uint64 // by /24
	v6     []netip.Prefix
	lensV6 []uint8
}

// buildSources makes the table of allowed sources. Prefixes may overlap.
func buildSources(prefixes []netip.Prefix) *sourceTable {
	t := &sourceTable{words: make([]uint64, sourceWords), part: map[uint32][4]uint64{}}
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
		if p.Bits() <= 24 {
			n := uint32(1) << (24 - p.Bits())
			for i := range n {
				t.setClass(first>>8+i, sourceAll)
			}
			continue
		}
		bits := t.part[first>>8]
		for i := range uint32(1) << (32 - p.Bits()) {
			last := first&255 + i
			bits[last>>6] |= 1 << (last & 63)
		}
		t.part[first>>8] = bits
	}
	for slash24 := range t.part {
		if t.words[slash24>>5]>>(2*(slash24&31))&3 == sourceAll {
			delete(t.part, slash24)
			continue
		}
		t.setClass(slash24, sourcePart)
	}
	return t
}

func (t *sourceTable) setClass(slash24 uint32, class uint64) {
	shift := 2 * (slash24 & 31)
	w := &t.words[slash24>>5]
	*w = *w&^(3<<shift) | class<<shift
}

// sourceKey6 is the key of an IPv6 prefix in a generation.
func sourceKey6(p netip.Prefix, gen uint32) (k patrolbpf.PatrolXdpTgSourceKey6) {
	k.Addr.D = words(p.Addr())
	k.PrefixLen, k.Gen = uint32(p.Bits()), gen
	return k
}
