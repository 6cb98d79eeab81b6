package plane

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/cilium/ebpf"
)

// Usage is what a swap-out table holds, active and history together.
type Usage struct {
	Entries int
	Bytes   uint64 // as the kernel accounts them
	Room    int    // entries that fit, both halves together
}

// OpenUsage reads how full a pinned swap-out table is. It walks the table from
// outside, which takes a while and may count what moves meanwhile twice: for the
// lab and for tests. No part of the proxy does it.
func OpenUsage(bpffs, instance string, tables ...string) (sum Usage, err error) {
	for _, name := range tables {
		outer, err := ebpf.LoadPinnedMap(filepath.Join(PinDir(bpffs, instance), name), nil)
		if err != nil {
			return Usage{}, fmt.Errorf("table %s: %w", name, err)
		}
		u, err := tableUsage(outer)
		outer.Close()
		if err != nil {
			return Usage{}, fmt.Errorf("table %s: %w", name, err)
		}
		sum.Entries, sum.Bytes, sum.Room = sum.Entries+u.Entries, sum.Bytes+u.Bytes, sum.Room+u.Room
	}
	return sum, nil
}

func tableUsage(outer *ebpf.Map) (sum Usage, err error) {
	var ids [2]ebpf.MapID
	for i, slot := range []uint32{slotActive, slotHistory} {
		if err := outer.Lookup(slot, &ids[i]); err != nil {
			return sum, err
		}
	}
	for i, id := range ids {
		if i == 1 && id == ids[0] {
			break // in the midst of a swap
		}
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return sum, err
		}
		n, err := countEntries(m)
		if err != nil {
			m.Close()
			return sum, err
		}
		info, err := m.Info()
		m.Close()
		if err != nil {
			return sum, err
		}
		bytes, ok := info.Memlock()
		if !ok {
			return sum, errors.New("this kernel does not say how much memory a map has")
		}
		sum.Entries, sum.Bytes, sum.Room = sum.Entries+n, sum.Bytes+bytes, sum.Room+int(m.MaxEntries())
	}
	return sum, nil
}

// countEntries walks a hash map bucket by bucket, so that what comes and goes
// meanwhile makes it begin nothing anew.
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
