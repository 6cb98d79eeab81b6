// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/dispatcher"
	"tidegate/internal/proginfo"
)

// Beside other XDP programs: where a dispatcher of libxdp's protocol is attached, our program becomes one of its components
// (internal/dispatcher). To the rest of this package that is a hook like others; the program pinned at its path is the
// component, a program other than p.xdp but from the same source and on the same maps.

// DispatcherUse says when the XDP program runs behind a dispatcher.
type DispatcherUse string

const (
	DispatcherAuto   DispatcherUse = "auto" // where there is one
	DispatcherAlways DispatcherUse = "always"
	DispatcherNever  DispatcherUse = "never"
)

const chainPass = 1 << 2 // XDP_PASS: what we pass goes on to the components after us

// extender loads a program as a replacement for a function of a dispatcher.
type extender func(target *ebpf.Program, function string) (*ebpf.Program, error)

// extend loads p.xdp once more, as a component.
func (p *Plane) extend(target *ebpf.Program, function string) (*ebpf.Program, error) {
	spec := p.gate.spec.Copy()
	prog := spec.Programs[p.gate.name]
	prog.Type, prog.AttachType, prog.AttachTarget, prog.AttachTo = ebpf.Extension, 0, target, function
	prog.Flags &^= unix.BPF_F_XDP_HAS_FRAGS // the dispatcher has it, if all components support it
	spec.Programs = map[string]*ebpf.ProgramSpec{p.gate.name: prog}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: p.replacements(spec), Cache: KernelTypes()})
	if err != nil {
		return nil, fmt.Errorf("as a component of an XDP dispatcher: %w", explain(err))
	}
	defer coll.Close()
	return coll.DetachProgram(p.gate.name), nil
}

func (p *Plane) component(priority uint32) dispatcher.Component {
	return dispatcher.Component{Name: p.gate.name, Priority: priority, Chain: chainPass, Load: p.extend,
		Frags: p.gate.spec.Programs[p.gate.name].Flags&unix.BPF_F_XDP_HAS_FRAGS != 0}
}

// joins says whether the program is to be a component on this interface.
func joins(index int, use DispatcherUse) bool {
	if use == DispatcherNever {
		return false
	}
	s, err := dispatcher.Place{Ifindex: index}.Look()
	if errors.Is(err, dispatcher.ErrForeign) {
		return false // the kernel refuses, and explainXDP says why
	}
	there := err == nil && s.ID != 0
	s.Close()
	return there || use == DispatcherAlways
}

// join attaches as a component: to the dispatcher that is attached, in its mode, or to one of our own.
func (p *Plane) join(name string, index int, o AttachOptions) (hook, error, error) {
	place := dispatcher.Place{Ifindex: index}
	var prog *ebpf.Program
	try := func(generic bool) (err error) {
		place.Generic = generic
		prog, err = place.Join(p.component(o.Priority))
		return err
	}
	now := attachedMode(index)
	if now != "" && o.XDPMode != XDPAuto && o.XDPMode != now {
		return nil, nil, fmt.Errorf("interface %s: the XDP dispatcher there runs in %s mode: set `xdp_mode: auto` or `%s`", name, now, now)
	}
	var refused error
	err := error(nil)
	if now != "" {
		err = try(now == XDPGeneric)
	} else {
		refused, err = inMode(index, o.XDPMode, p.farEnd, try)
	}
	if err != nil {
		return nil, nil, explainJoin(name, err)
	}
	id, err := proginfo.ID(prog)
	if err != nil {
		prog.Close()
		return nil, nil, err
	}
	return &dispatchedHook{place: place, prog: prog, id: id, present: true, extend: p.extend}, refused, nil
}

func explainJoin(name string, err error) error {
	if errors.Is(err, dispatcher.ErrNoExtensions) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("interface %s: as a component of an XDP dispatcher: %w; this kernel may refuse such programs: set `dispatcher: never`, and take the other program off by its own means", name, err)
	}
	return fmt.Errorf("interface %s: as a component of an XDP dispatcher: %w", name, err)
}

// dispatchedHook is a component of a dispatcher. Other programs replace the dispatcher as they join and leave, so it is found
// by the component's ID.
type dispatchedHook struct {
	place   dispatcher.Place
	prog    *ebpf.Program
	id      ebpf.ProgramID
	present bool
	path    string
	extend  extender // nil: only an existing component can take its place
}

// findDispatched finds the component that is pinned at path.
func findDispatched(path string, prog *ebpf.Program) (hook, error) {
	id, err := proginfo.ID(prog)
	if err != nil {
		return nil, err
	}
	own, err := prog.Clone()
	if err != nil {
		return nil, err
	}
	h := &dispatchedHook{prog: own, id: id, path: path}
	_, name, _ := cutPinName(filepath.Base(path))
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return h, nil // gone
	}
	h.place.Ifindex = dev.Index
	if s, err := h.place.Look(); err == nil {
		h.present, h.place.Generic = s.Has(id), s.Generic
		s.Close()
	}
	return h, nil
}

func (h *dispatchedHook) program() (ebpf.ProgramID, error) { return h.id, nil }

func (h *dispatchedHook) ifindex() int {
	if !h.present {
		return 0
	}
	return h.place.Ifindex
}

func (h *dispatchedHook) Update(prog *ebpf.Program) error {
	if !h.present {
		return os.ErrNotExist
	}
	c := dispatcher.Component{Load: h.extend, Frags: true}
	if name, err := proginfo.Name(prog); err == nil {
		c.Name = name
	}
	if prog.Type() == ebpf.Extension { // to restore the program it ran
		c.Load = func(*ebpf.Program, string) (*ebpf.Program, error) { return prog.Clone() }
	} else if h.extend == nil {
		return errors.New("a component of an XDP dispatcher can only be replaced by the program that has its source")
	}
	next, err := h.place.Replace(h.id, c)
	if err != nil {
		return err
	}
	id, err := proginfo.ID(next)
	if err != nil {
		next.Close()
		return err
	}
	h.prog.Close()
	h.prog, h.id = next, id
	if h.path == "" {
		return nil
	}
	return pinInPlace(h.prog, h.path)
}

func (h *dispatchedHook) Pin(path string) error {
	if err := pinInPlace(h.prog, path); err != nil {
		return err
	}
	h.path = path
	return nil
}

func (h *dispatchedHook) Detach() error { return h.place.Leave(h.id) }

func (h *dispatchedHook) Close() error { return h.prog.Close() }

// dispatcherProgram is the dispatcher that runs the component, for cost statistics: the kernel counts no component by itself.
func (h *dispatchedHook) dispatcherProgram() (*ebpf.Program, error) {
	s, err := h.place.Look()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return ebpf.NewProgramFromID(s.ID)
}

// Neighbour is a component of the dispatcher on an interface, in the order in which they run.
type Neighbour struct {
	Program  string `json:"program"`
	Priority uint32 `json:"priority"`
	Ours     bool   `json:"ours,omitempty"`
}

// Neighbours returns, by interface, what runs beside an instance's XDP program. Interfaces without a dispatcher are left out.
func Neighbours(bpffs, instance string) map[string][]Neighbour {
	found := map[string][]Neighbour{}
	(&attachments{dir: PinDir(bpffs, instance)}).eachPin(func(path, kind, name string) {
		if kind != "xdp" {
			return
		}
		l, err := openHook(path)
		if err != nil {
			return
		}
		defer l.Close()
		h, ok := l.(*dispatchedHook)
		if !ok {
			return
		}
		s, err := h.place.Look()
		if err != nil {
			return
		}
		defer s.Close()
		for _, c := range s.Components {
			found[name] = append(found[name], Neighbour{c.Name, c.Priority, c.ID == h.id})
		}
	})
	return found
}
