// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
)

// A start is provisional until Commit: until then the links keep the programs they ran before, the earlier
// process's maps keep their pins, and its shared settings are remembered. Undo, or Close,
// restores all of that, so a start that fails leaves the packet path it took over as it was.

// sharedValue is the earlier value of a map with one entry that was taken over from an earlier process.
type sharedValue struct {
	m     *ebpf.Map
	bytes []byte
}

// remember keeps the value of a map with one entry; tables are not written before Commit.
func (p *Plane) remember(m *ebpf.Map) {
	if m.Type() != ebpf.Array || m.MaxEntries() != 1 {
		return
	}
	if b, err := m.LookupBytes(uint32(0)); err == nil {
		p.shared = append(p.shared, sharedValue{m, b})
	}
}

// Commit makes Attach's changes final: links of interfaces it was not given, and the pins of the
// earlier process, are removed.
func (p *Plane) Commit() error {
	if p.links == nil || p.final {
		return nil
	}
	if err := p.renamePins(); err != nil {
		return err
	}
	p.final, p.shared = true, nil
	p.links.commit(p.links.interfaces, map[string]bool{"xdp": p.xdp != nil, "tc": p.tc != nil, "egress": p.egress != nil})
	return nil
}

// Undo leaves the packet path as it was before this start. After Commit it does nothing.
func (p *Plane) Undo() error {
	if p.final {
		return nil
	}
	var errs []error
	for _, s := range p.shared {
		if now, err := s.m.LookupBytes(uint32(0)); err == nil && bytes.Equal(now, s.bytes) {
			continue
		}
		errs = append(errs, s.m.Put(uint32(0), s.bytes))
	}
	p.shared = nil
	if p.links != nil {
		p.unpinMaps()
		errs = append(errs, p.links.undo())
		_ = os.Remove(p.dir) // succeeds only if the directory is new
		p.links = nil
	}
	return errors.Join(errs...)
}

// freshPin prefixes the pins of maps until Commit renames them.
const freshPin = "new-"

// pinMaps pins the maps that `status` and a later process read, beside those of an earlier process.
// Maps taken over from that process keep their pins.
func (p *Plane) pinMaps() error {
	for name, m := range p.maps {
		if m.IsPinned() {
			continue
		}
		path := filepath.Join(p.dir, freshPin+name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := m.Pin(path); err != nil {
			return fmt.Errorf("pin %s: %w", path, err)
		}
		p.freshPins = append(p.freshPins, name)
	}
	return nil
}

// renamePins replaces an earlier process's pins by those of pinMaps, and removes those of maps that this version or this
// role does not have: a pin keeps its map in memory, and `status` would read it.
func (p *Plane) renamePins() error {
	for _, name := range p.freshPins {
		if err := os.Rename(filepath.Join(p.dir, freshPin+name), filepath.Join(p.dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ours := p.maps[e.Name()]; ours || !isMapPin(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(p.dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the pin of an earlier version: %w", err)
		}
	}
	return nil
}

func (p *Plane) unpinMaps() {
	for _, name := range p.freshPins {
		_ = os.Remove(filepath.Join(p.dir, freshPin+name))
	}
	p.freshPins = nil
}

// undo restores the program that every link had before this start; a link that did
// not exist before is removed. XDP comes first: cookies that can no longer be
// verified must not be sent.
func (a *attachments) undo() error {
	var errs []error
	for _, l := range a.all() {
		switch {
		case l.before == nil:
			errs = append(errs, l.detach())
		case l.was != "":
			errs = append(errs, l.attachAsBefore())
		default:
			err := l.link.Update(l.before)
			errs = append(errs, err, l.close())
		}
	}
	return errors.Join(errs...)
}

// attachAsBefore restores an interface's earlier program and mode.
func (a *attachment) attachAsBefore() error {
	before := a.before
	a.before = nil
	defer before.Close()
	if err := a.detach(); err != nil {
		return err
	}
	l, _, err := newXDPLink(before, a.device, a.index, a.was, false)
	if err != nil {
		return err
	}
	repinned, err := pinNew(linkHook{l}, a.path)
	if err != nil {
		return err
	}
	return repinned.close()
}

// sockopsPin is where the link of sock_ops is pinned; before Commit, with the PID appended.
const sockopsPin = "sockops"

// commitSockops replaces other sock_ops links by this start's. Until then both receive socket events, so
// the socket filter of neither misses a socket, whichever process goes on.
func (a *attachments) commitSockops() {
	entries, _ := os.ReadDir(a.dir)
	for _, e := range entries {
		path := filepath.Join(a.dir, e.Name())
		if isSockopsPin(e.Name()) && (a.sockops == nil || path != a.sockops.path) {
			_ = detachPin(path)
		}
	}
	if a.sockops == nil {
		return
	}
	if path := filepath.Join(a.dir, sockopsPin); os.Rename(a.sockops.path, path) == nil {
		a.sockops.path = path
	}
}

func isSockopsPin(name string) bool {
	return name == sockopsPin || strings.HasPrefix(name, sockopsPin+"-")
}
