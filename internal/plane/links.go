// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Detach detaches everything and removes the pins; before Commit, it is Undo. Safe to call twice.
func (p *Plane) Detach() error {
	if !p.final {
		return p.Undo()
	}
	if p.links == nil {
		return nil
	}
	errs := []error{detachAll(p.links.xdp), detachAll(p.links.tc), detachAll(p.links.egress)}
	if p.links.sockops != nil {
		errs = append(errs, p.links.sockops.detach())
		p.links.sockops = nil
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}

func detachAll(set map[string]*attachment) error {
	var errs []error
	for name, a := range set {
		errs = append(errs, a.detach())
		delete(set, name)
	}
	return errors.Join(errs...)
}

// detach detaches the program at once: when only a pin and a handle are closed, the kernel
// releases the link some time later. (For a kind of link that cannot be detached
// explicitly, that is all there is.)
func (a *attachment) detach() error {
	_ = a.link.Detach()
	_ = os.Remove(programPin(a.path))
	err := os.Remove(a.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, a.close())
}

func (a *attachment) close() error {
	if a.before != nil {
		a.before.Close()
	}
	return a.link.Close()
}

func (a *attachments) all() (list []*attachment) {
	for _, set := range []map[string]*attachment{a.xdp, a.tc, a.egress} {
		for _, l := range set {
			list = append(list, l)
		}
	}
	if a.sockops != nil {
		list = append(list, a.sockops)
	}
	return list
}

func (a *attachments) close() {
	for _, l := range a.all() {
		_ = l.close()
	}
}

// commit makes this start final: links of interfaces not in the list go, and
// those of kinds that its role does not have.
func (a *attachments) commit(interfaces []string, kinds map[string]bool) {
	for _, l := range a.all() {
		if l.before != nil {
			l.before.Close()
			l.before = nil
		}
		_ = l.pinProgram() // without, only root can take this link over
	}
	a.eachPin(func(path, kind, name string) {
		if !slices.Contains(interfaces, name) || !kinds[kind] {
			_ = detachPin(path)
		}
	})
	a.commitSockops()
}

// detachPin detaches a pinned link, if it exists.
func detachPin(path string) error {
	l, err := openHook(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pinned link %s: %w", path, err)
	}
	return (&attachment{link: l, path: path}).detach()
}

// RemoveInstance detaches whatever is pinned for an instance, without loading a plane.
func RemoveInstance(bpffs, instance string) error {
	dir := PinDir(bpffs, instance)
	a := &attachments{dir: dir}
	a.commit(nil, nil)
	return os.RemoveAll(dir)
}

// dropDead removes pinned links that belong to another device than the one that
// has the name now.
func (a *attachments) dropDead(devices map[string]int) {
	a.eachPin(func(path, _, name string) {
		if index, wanted := devices[name]; wanted && linkIfindex(path) != index {
			_ = os.Remove(path)
			_ = os.Remove(programPin(path))
		}
	})
}

// eachPin visits the pinned links of interfaces.
func (a *attachments) eachPin(visit func(path, kind, name string)) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if kind, name, ok := cutPinName(e.Name()); ok {
			visit(filepath.Join(a.dir, e.Name()), kind, name)
		}
	}
}

// A BPF file system takes no dots in names, but interfaces (eth0.100) and
// instances have them.
var (
	escapePin   = strings.NewReplacer("%", "%25", ".", "%2e")
	unescapePin = strings.NewReplacer("%25", "%", "%2e", ".")
)

func pinName(kind, name string) string { return kind + "-" + escapePin.Replace(name) }

func cutPinName(file string) (kind, name string, ok bool) {
	kind, name, ok = strings.Cut(file, "-")
	return kind, unescapePin.Replace(name), ok && (kind == "xdp" || kind == "tc" || kind == "egress")
}

// refuseForeign refuses to touch an instance of the same name that is installed
// in another network namespace: interface numbers mean nothing across them.
func (p *Plane) refuseForeign(instance string) error {
	pinned, err := OpenPinned(p.dir)
	if err != nil {
		return nil // nothing installed, or nothing usable
	}
	defer pinned.Close()
	theirs, err := pinned.Settings()
	if err != nil {
		return nil
	}
	var ours Settings
	if err := p.maps[VarSettings].Lookup(uint32(0), &ours); err != nil {
		return err
	}
	if ours.NetnsCookie == theirs.NetnsCookie {
		return nil
	}
	alive := false
	(&attachments{dir: p.dir}).eachPin(func(path, _, _ string) {
		alive = alive || linkIfindex(path) > 0
	})
	if alive {
		return fmt.Errorf("instance %q is installed in another network namespace; set another `instance:`, or remove %s to take that one off", instance, p.dir)
	}
	return os.RemoveAll(p.dir)
}

// linkIfindex is the device of a pinned link; 0 if that is gone.
func linkIfindex(path string) int {
	l, err := openHook(path)
	if err != nil {
		return -1
	}
	defer l.Close()
	return l.ifindex()
}
