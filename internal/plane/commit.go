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

// A start is tried until Commit: until then the links know what they ran before, the maps of the
// process before keep their pins, and what it shares of its settings is remembered. Undo, or Close,
// brings all of that back, so a start that fails leaves the packet path that it has taken over as it was.

// sharedValue is what a map of one entry, taken over from the process before, held then.
type sharedValue struct {
	m     *ebpf.Map
	bytes []byte
}

// remember keeps the value of a map that has but one; tables are not written before Commit.
func (p *Plane) remember(m *ebpf.Map) {
	if m.Type() != ebpf.Array || m.MaxEntries() != 1 {
		return
	}
	if b, err := m.LookupBytes(uint32(0)); err == nil {
		p.shared = append(p.shared, sharedValue{m, b})
	}
}

// Commit makes what Attach has done final: links of interfaces that it does not name go, and the
// pins of the process before.
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
		_ = os.Remove(p.dir) // succeeds only if nothing was there before
		p.links = nil
	}
	return errors.Join(errs...)
}

// freshPin begins the names of maps' pins that Commit gives their own.
const freshPin = "new-"

// pinMaps pins the maps that `status` and a later process read, beside those of a process before. What
// was taken over from that has its pin, and keeps it.
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

// renamePins puts the pins of pinMaps in the place of those of a process before.
func (p *Plane) renamePins() error {
	for _, name := range p.freshPins {
		if err := os.Rename(filepath.Join(p.dir, freshPin+name), filepath.Join(p.dir, name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
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

// undo gives every link the program that it had before this start; a link that
// was not there before goes. XDP comes first: cookies of whom nobody knows any
// more must not be sent.
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

// attachAsBefore gives an interface back the program and the mode that it had.
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

// sockopsPin is where the link of sock_ops is pinned; before Commit, with the process's number.
const sockopsPin = "sockops"

// commitSockops puts the link of this start in the place of others. Until then both hear of sockets: no
// socket filter misses one, whichever goes on.
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
