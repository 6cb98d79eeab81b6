// SPDX-License-Identifier: Apache-2.0

package dispatcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

// Dir is where programs that follow the protocol pin dispatchers; the environment variable is libxdp's.
func Dir() string {
	root := os.Getenv("LIBXDP_BPFFS")
	if root == "" {
		root = "/sys/fs/bpf"
	}
	return filepath.Join(root, "xdp")
}

func (p Place) dir(id ebpf.ProgramID) string {
	return filepath.Join(Dir(), fmt.Sprintf("dispatch-%d-%d", p.Ifindex, id))
}

// patience is how long others may hold the lock; they hold it while they load programs.
const patience = 10 * time.Second

// lock excludes other programs that follow the protocol from changing dispatchers.
func lock() (unlock func(), err error) {
	if err := os.MkdirAll(Dir(), 0o700); err != nil {
		return nil, fmt.Errorf("folder of XDP dispatchers: %w; is a BPF file system mounted at %s?", err, filepath.Dir(Dir()))
	}
	d, err := os.Open(Dir())
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the kernel has no lock with a timeout
		err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Since(began) > patience {
			d.Close()
			return nil, fmt.Errorf("%s is locked by another program: %w; `fuser %s` shows which", Dir(), err, Dir())
		}
	}
}

// read returns which dispatcher is attached, without its components' programs.
func (p Place) read() (*State, error) {
	id, generic, err := p.attached()
	if err != nil || id == 0 {
		return &State{Generic: generic}, err
	}
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, fmt.Errorf("XDP program %d: %w", id, err)
	}
	s := &State{ID: id, Generic: generic, prog: prog}
	c, err := configIn(prog)
	if err != nil {
		prog.Close()
		return nil, err
	}
	s.version = c.Version
	for i := range int(c.Count) {
		s.Components = append(s.Components, Component{Priority: c.Priority[i], Chain: c.Chain[i], Frags: c.Flags[i]&unix.BPF_F_XDP_HAS_FRAGS != 0})
	}
	return s, nil
}

// configIn reads a dispatcher's constants; ErrForeign if it is not a dispatcher, or of an unknown version.
func configIn(prog *ebpf.Program) (c config, err error) {
	info, err := prog.Info()
	if err != nil {
		return c, err
	}
	id, _ := info.ID()
	no := func(why string) error { return fmt.Errorf("%q (id %d): %w%s", info.Name, id, ErrForeign, why) }
	maps, _ := info.MapIDs()
	if len(maps) != 1 || info.Name != dispatcherName {
		return c, no("")
	}
	m, err := ebpf.NewMapFromID(maps[0])
	if err != nil {
		return c, err
	}
	defer m.Close()
	if m.Type() != ebpf.Array || m.ValueSize() < sizeV2 {
		return c, no(": its protocol is older than version 2 (libxdp before 1.3)")
	}
	value, err := m.LookupBytes(uint32(0))
	if err != nil {
		return c, err
	}
	if _, err := binary.Decode(value, binary.NativeEndian, &c); err != nil {
		return c, err
	}
	switch {
	case c.Magic != magic || c.Count > maxComponents:
		return c, no("")
	case c.Version < firstVersion || c.Version > lastVersion || len(value) != c.size():
		return c, no(fmt.Sprintf(": its protocol has version %d", c.Version))
	case len(value) > sizeV2 && value[sizeV2] != 0:
		return c, no(": it is bound to its device")
	}
	return c, nil
}

// open opens the components by their pins; with keep they stay open.
func (s *State) open(dir string, keep bool) error {
	for i := range s.Components {
		c := &s.Components[i]
		prog, err := ebpf.LoadPinnedProgram(filepath.Join(dir, function(i)+"-prog"), nil)
		if err != nil {
			return fmt.Errorf("dispatcher %d: %w: component %d is not pinned in %s (%w)", s.ID, ErrForeign, i, dir, err)
		}
		c.prog = prog
		if c.Name, err = proginfo.Name(prog); err != nil {
			return err
		}
		if c.ID, err = proginfo.ID(prog); err != nil {
			return err
		}
		if !keep {
			c.close()
		}
	}
	return nil
}

// unpin removes a dispatcher's pins; what is attached nowhere else is freed with them.
func (p Place) unpin(id ebpf.ProgramID) error {
	if id == 0 {
		return nil
	}
	return os.RemoveAll(p.dir(id))
}

// sweep removes the pins of dispatchers of this interface that have a program and are not attached: their device is gone.
func (p Place) sweep(id ebpf.ProgramID) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	now, _, _ := p.attached()
	dirs, _ := filepath.Glob(filepath.Join(Dir(), fmt.Sprintf("dispatch-%d-*", p.Ifindex)))
	for _, dir := range dirs {
		if dir == p.dir(now) {
			continue
		}
		progs, _ := filepath.Glob(filepath.Join(dir, "prog*-prog"))
		for _, path := range progs {
			prog, err := ebpf.LoadPinnedProgram(path, nil)
			if err != nil {
				continue
			}
			its, _ := proginfo.ID(prog)
			prog.Close()
			if its == id {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}
