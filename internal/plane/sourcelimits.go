// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// OverLimitMap is the table of the sources above source_limits: core/over_limit.h.
const OverLimitMap = hostbpf.HostTcMapTgOverLimit

// OverLimit is a source that has begun more connections than source_limits allows.
type OverLimit struct {
	Prefix  netip.Prefix
	Dst     netip.Addr // of one of those connections
	Over    uint64     // as many were above a limit, since FirstNs
	Held    uint64     // of these: while it held as many as it may
	FirstNs int64      // MonotonicNs
	LastNs  int64
}

// ReadOverLimit reads the table, summed over all CPUs; those that were last above their limit come first. A slot that is
// changing hands is left out.
func ReadOverLimit(m *ebpf.Map) ([]OverLimit, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	slots := int(m.MaxEntries())
	keys, rows := make([]uint32, slots), make([]hostbpf.HostTcTgOver, slots*cpus)
	var at ebpf.MapBatchCursor
	n, err := m.BatchLookup(&at, keys, rows, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) || n != slots {
		return nil, fmt.Errorf("table of sources above their limit: %d of %d slots read: %w", n, slots, err)
	}
	var list []OverLimit
	for i := range rows {
		r := &rows[i]
		p := limitPrefix(r.Family, r.Prefix, int(r.Len))
		if r.TurnBefore == r.TurnAfter && r.Over > 0 && p.IsValid() {
			list = append(list, OverLimit{p, ProvenAddr(r.Family, r.Dst), r.Over, r.OverHeld, int64(r.FirstNs), int64(r.LastNs)})
		}
	}
	return SumOverLimit(list), nil
}

// SumOverLimit adds what several CPUs have noted of the same sources; those that were last above their limit come first.
func SumOverLimit(rows []OverLimit) []OverLimit {
	sums := map[netip.Prefix]OverLimit{}
	for _, r := range rows {
		sum, there := sums[r.Prefix]
		if !there {
			sum = OverLimit{Prefix: r.Prefix, Dst: r.Dst, FirstNs: r.FirstNs}
		}
		sum.Over += r.Over
		sum.Held += r.Held
		sum.FirstNs, sum.LastNs = min(sum.FirstNs, r.FirstNs), max(sum.LastNs, r.LastNs)
		sums[r.Prefix] = sum
	}
	list := make([]OverLimit, 0, len(sums))
	for _, o := range sums {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b OverLimit) int {
		return cmp.Or(cmp.Compare(b.LastNs, a.LastNs), a.Prefix.Compare(b.Prefix))
	})
	return list
}

// OpenOverLimit reads the pinned table of an instance; none if it has no such table.
func OpenOverLimit(dir string) ([]OverLimit, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, OverLimitMap), &ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return ReadOverLimit(m)
}

// Recount counts the sockets of each source anew, in the half of the sketch that does not count now, and has that one count from
// now on: bpf/lib/source_held.h. It reads every socket of the namespace.
func (p *Plane) Recount(s *Settings) error {
	if err := clearHalf(p.maps[hostbpf.HostTcMapTgHeld], uint32(1-s.HeldHalf)); err != nil {
		return err
	}
	if err := p.SetSettings(s); err != nil { // by which sources are told apart
		return err
	}
	if err := iterate(p.held); err != nil {
		return fmt.Errorf("connections of each source: %w", err)
	}
	s.HeldHalf = 1 - s.HeldHalf
	return p.SetSettings(s)
}

// clearHalf clears one half of the sketch of connections that sources hold.
func clearHalf(m *ebpf.Map, half uint32) error {
	cells := m.MaxEntries() / 2
	keys, zero := make([]uint32, cells), make([]uint32, cells)
	for i := range keys {
		keys[i] = half&1*cells + uint32(i)
	}
	if _, err := m.BatchUpdate(keys, zero, nil); err != nil {
		return fmt.Errorf("connections of each source: %w", err)
	}
	return nil
}

// limitPrefix is tg_limit_prefix of core/source_limit.h; the zero Prefix for what is none.
func limitPrefix(family uint8, first uint64, length int) netip.Prefix {
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:], first)
	addr := netip.AddrFrom16(raw)
	switch family {
	case 4:
		addr = netip.AddrFrom4([4]byte(raw[:4]))
	case 6:
	default:
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, length).Masked()
}
