// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// Proven is one slot of core/proven.h, of one CPU or core.
type Proven = hostbpf.HostTcTgProven

// OffendersMap is the table of those slots.
const OffendersMap = hostbpf.HostTcMapTgOffenders

// ReadProven reads all slots of all CPUs, always in the same order. A slot written
// meanwhile may be torn; TurnBefore and TurnAfter and a second reading detect that.
func ReadProven(m *ebpf.Map) ([]Proven, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	slots := int(m.MaxEntries())
	keys, values := make([]uint32, slots), make([]Proven, slots*cpus)
	var at ebpf.MapBatchCursor
	n, err := m.BatchLookup(&at, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) || n != slots {
		return nil, fmt.Errorf("table of proven sources: %d of %d slots read: %w", n, slots, err)
	}
	return values, nil
}

// ReadProven reads the table of an installed plane.
func (p *Plane) ReadProven() ([]Proven, error) { return ReadProven(p.Map(OffendersMap)) }

// ProvenAddr is an address as the packet path keeps it; the zero Addr for a family
// that is neither 4 nor 6.
func ProvenAddr(family uint8, words [2]uint64) netip.Addr {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], words[0])
	binary.NativeEndian.PutUint64(b[8:], words[1])
	switch family {
	case 4:
		return netip.AddrFrom4([4]byte(b[:4]))
	case 6:
		return netip.AddrFrom16(b)
	}
	return netip.Addr{}
}

// Handshakes are those of a source with one destination, as core/proven.h remembers them.
type Handshakes struct {
	Dst             netip.Addr
	Count           uint64
	FirstNs, LastNs int64 // MonotonicNs
}

// OpenHandshakes reads what the pinned table of an instance remembers of a source, the last first; `on` is false if it remembers nobody.
func OpenHandshakes(dir string, src netip.Addr) (list []Handshakes, on bool, err error) {
	var s Settings
	if err := lookupPinned(dir, VarSettings, func(m *ebpf.Map) error { return m.Lookup(uint32(0), &s) }); err != nil || s.Report == 0 {
		return nil, false, err
	}
	var rows []Proven
	if err := lookupPinned(dir, OffendersMap, func(m *ebpf.Map) (err error) { rows, err = ReadProven(m); return err }); err != nil {
		return nil, true, err
	}
	return HandshakesOf(rows, src), true, nil
}

// OpenProven reads the pinned table of an instance.
func OpenProven(dir string) (rows []Proven, err error) {
	err = lookupPinned(dir, OffendersMap, func(m *ebpf.Map) (err error) { rows, err = ReadProven(m); return err })
	return rows, err
}

// HandshakesOf sums what is remembered of a source, the last first.
func HandshakesOf(rows []Proven, src netip.Addr) []Handshakes {
	sums := map[netip.Addr]Handshakes{}
	for i := range rows {
		r := &rows[i]
		if r.TurnBefore != r.TurnAfter || r.Handshakes == 0 || ProvenAddr(r.Family, r.Src) != src {
			continue
		}
		dst := ProvenAddr(r.Family, r.Dst)
		h, there := sums[dst]
		if !there {
			h = Handshakes{Dst: dst, FirstNs: int64(r.FirstNs)}
		}
		h.Count += uint64(r.Handshakes)
		h.FirstNs, h.LastNs = min(h.FirstNs, int64(r.FirstNs)), max(h.LastNs, int64(r.LastNs))
		sums[dst] = h
	}
	list := slices.Collect(maps.Values(sums))
	slices.SortFunc(list, func(a, b Handshakes) int { return cmp.Or(cmp.Compare(b.LastNs, a.LastNs), a.Dst.Compare(b.Dst)) })
	return list
}

// lookupPinned reads one pinned map.
func lookupPinned(dir, name string, read func(*ebpf.Map) error) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer m.Close()
	return read(m)
}
