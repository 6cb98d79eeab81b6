// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/cilium/ebpf"
)

// Usage is what a swap-out table holds, active and history together.
type Usage struct {
	Entries int
	Bytes   uint64 // as the kernel accounts them
	Room    int    // entries that fit, both halves together

	KeyBytes, ValueBytes int // of one entry; of the last table, if there are several
}

// OpenUsage reads how full a pinned swap-out table is. It walks the table from
// userspace, which takes a while and may count moving entries twice: for the
// lab and for tests. The proxy itself never calls it.
func OpenUsage(bpffs, instance string, tables ...string) (sum Usage, err error) {
	for _, name := range tables {
		outer, err := ebpf.LoadPinnedMap(filepath.Join(PinDir(bpffs, instance), name), nil)
		if err != nil {
			return Usage{}, fmt.Errorf("table %s: %w", name, err)
		}
		u, err := tableUsage(PinDir(bpffs, instance), name, outer)
		outer.Close()
		if err != nil {
			return Usage{}, fmt.Errorf("table %s: %w", name, err)
		}
		sum.Entries, sum.Bytes, sum.Room = sum.Entries+u.Entries, sum.Bytes+u.Bytes, sum.Room+u.Room
		sum.KeyBytes, sum.ValueBytes = u.KeyBytes, u.ValueBytes
	}
	return sum, nil
}

// tableUsage is of a swap-out map, both slots, or of one that is not swapped.
func tableUsage(dir, name string, outer *ebpf.Map) (sum Usage, err error) {
	if outer.Type() != ebpf.ArrayOfMaps {
		return mapUsage(outer)
	}
	var first ebpf.MapID
	for i, slot := range []uint32{slotActive, slotHistory} {
		m, err := openSlot(dir, name, outer, slot)
		if err != nil {
			return sum, err
		}
		id, err := mapID(m)
		if i == 1 && id == first {
			m.Close()
			break // in the midst of a swap
		}
		first = id
		var u Usage
		if err == nil {
			u, err = mapUsage(m)
		}
		m.Close()
		if err != nil {
			return sum, err
		}
		sum.Entries, sum.Bytes, sum.Room = sum.Entries+u.Entries, sum.Bytes+u.Bytes, sum.Room+u.Room
		sum.KeyBytes, sum.ValueBytes = u.KeyBytes, u.ValueBytes
	}
	return sum, nil
}

func mapUsage(m *ebpf.Map) (Usage, error) {
	n, err := countEntries(m)
	if err != nil {
		return Usage{}, err
	}
	info, err := m.Info()
	if err != nil {
		return Usage{}, err
	}
	bytes, ok := info.Memlock()
	if !ok {
		return Usage{}, errors.New("this kernel does not say how much memory a map has")
	}
	return Usage{Entries: n, Bytes: bytes, Room: int(m.MaxEntries()), KeyBytes: int(m.KeySize()), ValueBytes: int(m.ValueSize())}, nil
}

// Footprint is the size of all pinned maps of an instance, in bytes as the kernel
// accounts them: it includes all that a flood makes grow, whatever the strategy.
func Footprint(bpffs, instance string) (sum uint64, err error) {
	dir := PinDir(bpffs, instance)
	pins, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, pin := range pins {
		if isSlotPin(pin.Name()) {
			continue // counted with the map in whose slot it stands
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, pin.Name()), nil)
		if err != nil {
			continue // a link
		}
		bytes, err := mapFootprint(m)
		m.Close()
		if err != nil {
			return 0, fmt.Errorf("map %s: %w", pin.Name(), err)
		}
		sum += bytes
	}
	return sum, nil
}

// mapFootprint counts an outer map's inner maps, too.
func mapFootprint(m *ebpf.Map) (uint64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	sum, ok := info.Memlock()
	if !ok {
		return 0, errors.New("this kernel does not say how much memory a map has")
	}
	if m.Type() != ebpf.ArrayOfMaps {
		return sum, nil
	}
	seen := map[ebpf.MapID]bool{}
	for slot := range m.MaxEntries() {
		var id ebpf.MapID
		if m.Lookup(slot, &id) != nil || seen[id] {
			continue
		}
		seen[id] = true
		inner, err := ebpf.NewMapFromID(id)
		if err != nil {
			return 0, err
		}
		bytes, err := mapFootprint(inner)
		inner.Close()
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// countEntries walks a hash map bucket by bucket, so that concurrent changes
// never make it start over.
func countEntries(m *ebpf.Map) (n int, err error) {
	const batch = 4096
	list := func(size uint32) any {
		return reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(int(size), reflect.TypeFor[byte]())), batch, batch).Interface()
	}
	keys, values := list(m.KeySize()), list(m.ValueSize())
	var cursor ebpf.MapBatchCursor
	for {
		got, err := m.BatchLookup(&cursor, keys, values, nil)
		n += got
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
