// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
)

// The two maps in the slots of a swap-out map have pins of their own, named for the map and its ID (tg_flows4-123):
// opening a map by its ID alone takes CAP_SYS_ADMIN.

func slotPin(dir, name string, id ebpf.MapID) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", name, id))
}

// isSlotPin distinguishes such pins from those of links, which begin with a kind, and of maps, which have no hyphen.
func isSlotPin(file string) bool {
	return strings.HasPrefix(file, "tg_") && strings.Contains(file, "-")
}

func isMapPin(file string) bool { return strings.HasPrefix(file, "tg_") && !isSlotPin(file) }

// openSlot opens the map in a slot; ebpf.ErrKeyNotExist if there is none.
func openSlot(dir, name string, outer *ebpf.Map, slot uint32) (*ebpf.Map, error) {
	for try := 0; ; try++ {
		var id ebpf.MapID
		if err := outer.Lookup(slot, &id); err != nil {
			return nil, err
		}
		if m, err := ebpf.LoadPinnedMap(slotPin(dir, name, id), nil); err == nil {
			if is, err := mapID(m); err == nil && is == id {
				return m, nil
			}
			m.Close()
		}
		m, err := ebpf.NewMapFromID(id)
		if err == nil || try == 2 { // else the daemon may have replaced it
			if errors.Is(err, os.ErrPermission) {
				err = fmt.Errorf("a map without a pin of its own may not be opened: %w; run it once as root", err)
			}
			return m, err
		}
	}
}

func mapID(m *ebpf.Map) (ebpf.MapID, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return id, nil
}

// pinSlot pins a map before it is put into a slot, or because it is in one.
func (p *Proxy) pinSlot(name string, m *ebpf.Map) error {
	id, err := mapID(m)
	if err != nil {
		return err
	}
	own, err := m.Clone() // pins of one of the same map that was opened by its pin would go with it
	if err != nil {
		return err
	}
	defer own.Close()
	if err := own.Pin(slotPin(p.dir, name, id)); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("pin %s: %w", name, err)
	}
	return nil
}

// Commit makes the start final, and pins the maps in the slots.
func (p *Proxy) Commit() error {
	if err := p.Plane.Commit(); err != nil {
		return err
	}
	return p.pinSlots()
}

// pinSlots pins the maps in the slots, and no others.
func (p *Proxy) pinSlots() error {
	if p.dir == "" || !p.final {
		return nil
	}
	stay := map[string]bool{}
	for name, slots := range p.slots {
		for _, m := range slots {
			id, err := mapID(m)
			if err != nil {
				return err
			}
			if err := p.pinSlot(name, m); err != nil {
				return err
			}
			stay[filepath.Base(slotPin("", name, id))] = true
		}
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isSlotPin(e.Name()) && !stay[e.Name()] {
			_ = os.Remove(filepath.Join(p.dir, e.Name()))
		}
	}
	return nil
}

func (p *Proxy) closeSlots() {
	for _, slots := range p.slots {
		for _, m := range slots {
			m.Close()
		}
	}
	p.slots = nil
}
