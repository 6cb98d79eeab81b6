// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// Proven is one slot of bpf/lib/proven.h, of one CPU.
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
