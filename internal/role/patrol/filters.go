// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"tidegate/internal/plane"
)

// Filters connects the table and the sources to the maps of a plane.
type Filters struct {
	plane    *plane.Patrol
	settings Settings
	table    *Table
}

// NewFilters places the tables over a plane's memory. A plane that was taken over,
// or used before, keeps its filters and the hash keys of their positions.
func NewFilters(p *plane.Patrol, codepoint, plain uint8) (*Filters, error) {
	old, err := p.Settings()
	if err != nil {
		return nil, err
	}
	f := &Filters{plane: p, settings: old}
	f.settings.Codepoint, f.settings.Plain = codepoint, plain
	keys, before := old.Keys, &old
	if keys == ([keysLen]uint64{}) {
		keys, before = randomKeys(), nil
		for i := range f.settings.SourceLensV6 {
			f.settings.SourceLensV6[i] = lenEnd
		}
	}
	tags, entries := p.Memory()
	if f.table, err = NewTable(tags, entries, keys, before, f.publish); err != nil {
		return nil, err
	}
	return f, f.publish(f.table)
}

// lenEnd ends the list of IPv6 prefix lengths.
const lenEnd = 255

func randomKeys() (k [keysLen]uint64) {
	var b [8 * keysLen]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	for i := range k {
		k[i] = binary.LittleEndian.Uint64(b[8*i:]) | 1
	}
	return k
}

// publish writes the shapes in two steps: first the masks of new ones, then their
// numbers, without which no packet looks at the masks.
func (f *Filters) publish(t *Table) error {
	t.fillShapes(&f.settings, true)
	if err := f.plane.SetSettings(&f.settings); err != nil {
		return err
	}
	t.fillShapes(&f.settings, false)
	return f.plane.SetSettings(&f.settings)
}

// SetSources replaces the allowed sources: the new set is written beside the old
// one, and one word in the settings selects the set in force.
func (f *Filters) SetSources(prefixes []netip.Prefix) error {
	t := buildSources(prefixes)
	if len(t.lensV6) > len(f.settings.SourceLensV6) {
		return fmt.Errorf("%d different IPv6 prefix lengths are too many; use at most %d", len(t.lensV6), len(f.settings.SourceLensV6))
	}
	f.table.mu.Lock() // the settings are shared with it
	defer f.table.mu.Unlock()
	next := f.settings.SourcesGen ^ 1
	if err := f.plane.DropSources(next); err != nil {
		return fmt.Errorf("sources: %w", err)
	}
	mem := f.plane.SourceMemory()
	half := unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), 2*sourceWords)[next*sourceWords:][:sourceWords]
	for i, w := range t.words {
		atomic.StoreUint64(&half[i], w)
	}
	for slash24, bits := range t.part {
		if err := f.plane.SetPart4(slash24, next, bits); err != nil {
			return fmt.Errorf("sources: %w; at most 262,144 /24s may be allowed in part", err)
		}
	}
	for _, p := range t.v6 {
		if err := f.plane.SetSource6(sourceKey6(p, next)); err != nil {
			return fmt.Errorf("sources: %w; use at most 262,144 IPv6 prefixes", err)
		}
	}
	for i := range f.settings.SourceLensV6 {
		f.settings.SourceLensV6[i] = lenEnd
	}
	copy(f.settings.SourceLensV6[:], t.lensV6)
	f.settings.SourcesGen = next
	return f.plane.SetSettings(&f.settings)
}

// nowS is CLOCK_MONOTONIC in seconds, as packets see it.
func nowS() uint32 {
	return uint32(plane.MonotonicNs() / 1e9)
}

// Table is where filters are installed.
func (f *Filters) Table() *Table { return f.table }
