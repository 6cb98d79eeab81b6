// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/schema"
)

// ReadCounters returns the counters of one service, summed over all CPUs.
func ReadCounters(m *ebpf.Map, id uint32) (sum [schema.NumCounters]uint64, err error) {
	var perCPU []Counters
	if err := m.Lookup(id, &perCPU); err != nil {
		return sum, fmt.Errorf("counters of service %d: %w", id, err)
	}
	for _, row := range perCPU {
		for i, v := range row.Count {
			sum[i] += v
		}
	}
	return sum, nil
}

// ClearCounters sets the counters of services to zero.
func ClearCounters(m *ebpf.Map, ids ...uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := m.Put(id, make([]Counters, cpus)); err != nil {
			return err
		}
	}
	return nil
}

// Pinned is the read-only view of an instance through its pins.
type Pinned struct {
	dir string

	counters, services, settings, keys *ebpf.Map
	listeners                          *ebpf.Map // of an adopting gate
}

// OpenPinned opens the pinned maps of an instance. os.ErrNotExist if there is none.
func OpenPinned(dir string) (*Pinned, error) {
	p := &Pinned{dir: dir}
	for name, to := range map[string]**ebpf.Map{
		hostbpf.HostXdpMapTgCounters: &p.counters,
		VarServices:                  &p.services,
		VarSettings:                  &p.settings,
		hostbpf.HostXdpMapTgKeys:     &p.keys,
	} {
		// What is mapped into memory cannot be opened read-only; it is mapped so (Entries).
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: name != VarServices})
		if err == nil {
			*to, err = m, sameShape(m, pinnedShapes[name], filepath.Join(dir, name))
		}
		if err != nil {
			p.Close()
			return nil, err
		}
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, hostbpf.HostXdpMapTgListeners), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Close()
		return nil, err
	}
	p.listeners = m
	return p, nil
}

// ErrForeign: under the name of one of our maps there is another: of another program, or of another version of this one.
var ErrForeign = errors.New("is not the map that this version of tidegate keeps there")

// shape is what tells a map of this version from another under its name.
type shape struct {
	kind      ebpf.MapType
	valueSize uintptr // bytes
	entries   uint32  // 0: of each instance's own
}

// serviceSlots is TG_SERVICE_SLOTS of bpf/lib/maps.h.
const serviceSlots = 16_384

// pinnedShapes are those of the maps of Pinned, whose keys have four bytes. They stand here because to read the object that has
// them takes longer than to read the maps.
var pinnedShapes = map[string]shape{
	hostbpf.HostXdpMapTgCounters: {ebpf.PerCPUArray, unsafe.Sizeof(Counters{}), 0},
	VarServices:                  {ebpf.Array, unsafe.Sizeof([serviceSlots]Service{}), 1},
	VarSettings:                  {ebpf.Array, unsafe.Sizeof(Settings{}), 1},
	hostbpf.HostXdpMapTgKeys:     {ebpf.Array, unsafe.Sizeof(EpochKey{}), 0},
}

func sameShape(m *ebpf.Map, want shape, path string) error {
	if m.Type() != want.kind || m.KeySize() != 4 || m.ValueSize() != uint32(want.valueSize) || want.entries != 0 && m.MaxEntries() != want.entries {
		return fmt.Errorf("%s %w", path, ErrForeign)
	}
	return nil
}

// Close releases the maps.
func (p *Pinned) Close() {
	for _, m := range []*ebpf.Map{p.counters, p.services, p.settings, p.keys, p.listeners} {
		if m != nil {
			m.Close()
		}
	}
}

// Counters of one service, by name of core/counters.def; id 0 is "no service".
func (p *Pinned) Counters(id uint32) (map[string]uint64, error) {
	sum, err := ReadCounters(p.counters, id)
	if err != nil {
		return nil, err
	}
	return schema.Map(sum), nil
}

// Service entry of an id.
func (p *Pinned) Service(id uint32) (Service, error) {
	return entry[Service](p.services, id)
}

// Settings of the instance.
func (p *Pinned) Settings() (s Settings, err error) {
	err = p.settings.Lookup(uint32(0), &s)
	return s, err
}

// LastKey is the last epoch that keys reach to from epoch `now` on; 0: none is loaded.
func (p *Pinned) LastKey(now uint64) (last uint64, err error) {
	var cursor ebpf.MapBatchCursor
	slots, ring := make([]uint32, p.keys.MaxEntries()), make([]EpochKey, p.keys.MaxEntries())
	if _, err := p.keys.BatchLookup(&cursor, slots, ring, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // that: to its end
		return 0, err
	}
	there := map[uint64]bool{}
	for _, k := range ring {
		if k.Epoch != 0 {
			there[k.Epoch] = true
		}
	}
	return lastKey(there, now), nil
}

// lastKey ignores what a clock that was set back has left of the time before: keys of a future that others do not reach to. Without a key of now the
// last one of the past counts, or, if all are of the future, the last of all.
func lastKey(there map[uint64]bool, now uint64) (last uint64) {
	if there[now] {
		for last = now; there[last+1]; last++ {
		}
		return last
	}
	for epoch := range there {
		past, best := epoch < now, last != 0 && last < now
		if last == 0 || past && !best || past == best && epoch > last {
			last = epoch
		}
	}
	return last
}
