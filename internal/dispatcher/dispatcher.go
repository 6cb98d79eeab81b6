// SPDX-License-Identifier: Apache-2.0

// Package dispatcher shares an interface's XDP hook with other programs, by the protocol of libxdp (xdp-tools,
// lib/libxdp/protocol.org): a dispatcher program runs on the interface and calls each component in turn, which has
// replaced one of its functions (BPF_PROG_TYPE_EXT, "freplace"). A program that joins or leaves makes a new dispatcher and swaps
// it for the previous one atomically. The package must never touch a program that is not a dispatcher.
package dispatcher

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

// ErrForeign: the attached program is not a dispatcher, or one that only its maker can change.
var ErrForeign = errors.New("not a dispatcher that other programs can join")

// Place is an interface, in the network namespace of the caller.
type Place struct {
	Ifindex int
	Generic bool // the mode of the first dispatcher; a later one keeps it
}

// Component is a program that a dispatcher calls.
type Component struct {
	Name     string
	ID       ebpf.ProgramID // 0: not loaded yet
	Priority uint32         // those with the smaller number run first
	Chain    uint32         // a bit for each verdict after which the next component runs
	Frags    bool           // supports frames in several fragments

	// Load loads a new component as a replacement for a function of target.
	Load func(target *ebpf.Program, function string) (*ebpf.Program, error)

	prog *ebpf.Program
}

// State is what is attached to an interface.
type State struct {
	ID         ebpf.ProgramID // of the dispatcher; 0: nothing is attached
	Generic    bool
	Components []Component

	version uint8
	prog    *ebpf.Program
}

// Close releases the programs. They stay attached.
func (s *State) Close() {
	if s == nil {
		return
	}
	for i := range s.Components {
		s.Components[i].close()
	}
	if s.prog != nil {
		s.prog.Close()
	}
}

func (c *Component) close() {
	if c.prog != nil {
		c.prog.Close()
		c.prog = nil
	}
}

// Has reports whether a program is among the components.
func (s *State) Has(id ebpf.ProgramID) bool {
	return id != 0 && slices.ContainsFunc(s.Components, func(c Component) bool { return c.ID == id })
}

// Look reads what is attached, without opening its components. ErrForeign: no dispatcher.
func (p Place) Look() (*State, error) {
	s, err := p.read()
	if err == nil && s.ID != 0 {
		err = s.open(p.dir(s.ID), false)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Join adds a component, with a dispatcher of its own where there is none. It returns the program that was loaded,
// which the caller closes.
func (p Place) Join(c Component) (prog *ebpf.Program, err error) {
	err = p.change(func(list []Component) ([]Component, error) {
		return append(list, c), nil
	}, &prog)
	return prog, err
}

// Replace puts another program into the place of a component; os.ErrNotExist if that is gone. Priority and chained
// verdicts stay as they are.
func (p Place) Replace(id ebpf.ProgramID, c Component) (prog *ebpf.Program, err error) {
	err = p.change(func(list []Component) ([]Component, error) {
		i := slices.IndexFunc(list, func(c Component) bool { return c.ID == id })
		if i < 0 {
			return nil, os.ErrNotExist
		}
		c.Priority, c.Chain = list[i].Priority, list[i].Chain
		list[i].close()
		list[i] = c
		return list, nil
	}, &prog)
	return prog, err
}

// Leave takes a component out, and the dispatcher with the last one. What is gone already is no error.
func (p Place) Leave(id ebpf.ProgramID) error {
	err := p.change(func(list []Component) ([]Component, error) {
		left := slices.DeleteFunc(list, func(c Component) bool {
			if c.ID == id {
				c.close()
			}
			return c.ID == id
		})
		if len(left) == len(list) {
			return nil, os.ErrNotExist
		}
		return left, nil
	}, nil)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrForeign) || errors.Is(err, unix.ENODEV) {
		return p.sweep(id)
	}
	return err
}

// attempts bounds how often another's change in the same moment makes ours start over.
const attempts = 10

// change replaces the list of components. added gets the program loaded for the component that had none.
func (p Place) change(edit func([]Component) ([]Component, error), added **ebpf.Program) error {
	err := error(unix.EEXIST)
	for range attempts {
		if err = p.changeOnce(edit, added); !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

func (p Place) changeOnce(edit func([]Component) ([]Component, error), added **ebpf.Program) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	before, err := p.read()
	if err != nil {
		return err
	}
	defer before.Close()
	if before.ID != 0 {
		if err := before.open(p.dir(before.ID), true); err != nil {
			return err
		}
		p.Generic = before.Generic
	}
	list, err := edit(before.Components)
	if err != nil {
		return err
	}
	before.Components = list // which closes them
	if len(list) == 0 {
		if err := p.attach(nil, before.prog); err != nil {
			return err
		}
		return p.unpin(before.ID)
	}
	if len(list) > maxComponents {
		return fmt.Errorf("the dispatcher already holds %d programs, its maximum; detach one of them", maxComponents)
	}
	slices.SortStableFunc(list, order)
	next, err := p.build(list, before.version, added)
	if err == nil {
		if err = p.attach(next.prog, before.prog); err == nil {
			next.prog.Close()
			return p.unpin(before.ID)
		}
		_ = p.unpin(next.ID)
		next.prog.Close()
	}
	if added != nil && *added != nil {
		(*added).Close()
		*added = nil
	}
	return err
}

// order is the protocol's: by priority, then by name, then loaded programs first.
func order(a, b Component) int {
	loaded := func(c Component) int {
		if c.prog != nil {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name), cmp.Compare(loaded(a), loaded(b)))
}

// build loads a dispatcher for these components, makes them replace its functions, and pins everything.
func (p Place) build(list []Component, version uint8, added **ebpf.Program) (next *State, err error) {
	next = &State{}
	if next.prog, err = generate(list, version); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			if next.ID != 0 {
				_ = p.unpin(next.ID)
			}
			next.prog.Close()
		}
	}()
	if next.ID, err = proginfo.ID(next.prog); err != nil {
		return nil, err
	}
	dir := p.dir(next.ID)
	if err = os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range list {
		c := &list[i]
		if c.prog == nil {
			if c.prog, err = c.Load(next.prog, function(i)); err != nil {
				return nil, err
			}
			if *added, err = c.prog.Clone(); err != nil {
				return nil, err
			}
		}
		if err = replace(next.prog, i, c.prog, dir); err != nil {
			return nil, fmt.Errorf("component %s: %w", c.Name, err)
		}
	}
	return next, nil
}

// replace makes a component replace function i of a dispatcher, and pins it.
func replace(target *ebpf.Program, i int, prog *ebpf.Program, dir string) error {
	l, err := link.AttachFreplace(target, function(i), prog)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Pin(filepath.Join(dir, function(i)+"-link")); err != nil {
		return err
	}
	own, err := prog.Clone() // a program that is already pinned would lose its pin
	if err != nil {
		return err
	}
	defer own.Close()
	return own.Pin(filepath.Join(dir, function(i)+"-prog"))
}

// ErrNoExtensions: this kernel does not let programs replace other programs' functions.
var ErrNoExtensions = errors.New("this kernel lets no BPF program extend another (BPF_PROG_TYPE_EXT)")

// Possible reports whether this kernel has what a dispatcher needs. It attaches nothing.
func Possible() error {
	prog, err := generate([]Component{{}}, 0)
	if err != nil {
		return err
	}
	defer prog.Close()
	ext, err := trial(prog, function(0))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoExtensions, err)
	}
	return ext.Close()
}
