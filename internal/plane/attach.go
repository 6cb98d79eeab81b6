// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

// XDPMode is where in the receive path XDP runs.
type XDPMode string

const (
	XDPAuto    XDPMode = "auto" // native where the driver has it, else generic
	XDPNative  XDPMode = "native"
	XDPGeneric XDPMode = "generic"
)

// AttachOptions say where a plane is attached.
type AttachOptions struct {
	BPFFS      string
	Instance   string
	Interfaces []string
	XDPMode    XDPMode
	CgroupRoot string // mount point of cgroup v2

	Dispatcher DispatcherUse // empty: never
	Priority   uint32        // among a dispatcher's components
	TCLast     bool          // TC programs run after those already attached, not before
}

// attachment is one pinned link.
type attachment struct {
	link   hook
	path   string        // of the pin
	prog   *ebpf.Program // what it runs; nil for a pin that is only visited
	before *ebpf.Program // what it ran before, if taken over from an earlier process

	// For an XDP link that was re-created in another mode.
	was    XDPMode
	device string
	index  int
}

// attachments are the links of one instance, pinned as xdp-<interface>,
// tc-<interface>, egress-<interface> and sockops.
type attachments struct {
	dir             string
	interfaces      []string
	xdp, tc, egress map[string]*attachment // by interface
	refused         map[string]string      // why a driver that was asked for native XDP runs generic
	alone           map[string]bool        // those for which it is the veth's far end
	sockops         *attachment
}

// Attach installs the programs: first those that only observe (sock_ops, the socket
// iterator), then TC, and XDP last, so that no cookie is sent before it can be
// verified. Links that an earlier process of the instance left pinned are taken
// over and change their program in one step. It returns the XDP mode in use for
// each interface. On failure everything is as before; after success call Commit or Undo.
func (p *Plane) Attach(o AttachOptions) (map[string]XDPMode, error) {
	p.dir, p.priority, p.mode = PinDir(o.BPFFS, o.Instance), o.Priority, o.XDPMode
	if err := p.refuseForeign(o.Instance); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w; is a BPF file system mounted at %s?", err, o.BPFFS)
	}
	p.links = &attachments{dir: p.dir, interfaces: o.Interfaces, xdp: map[string]*attachment{}, tc: map[string]*attachment{},
		egress: map[string]*attachment{}}
	modes, err := p.attachAll(o)
	if err == nil {
		err = errors.Join(p.addTablesVersion(), p.pinMaps())
	}
	if err != nil {
		return nil, errors.Join(err, p.Undo())
	}
	return modes, nil
}

func (p *Plane) attachAll(o AttachOptions) (map[string]XDPMode, error) {
	devices := map[string]int{}
	for _, name := range o.Interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		devices[name] = dev.Index
	}
	p.links.dropDead(devices)
	if p.sockops != nil { // a proxy has no sockets to watch
		if err := p.attachSockops(o.CgroupRoot); err != nil {
			return nil, err
		}
		if err := p.startWatching(); err != nil {
			return nil, err
		}
	}
	for name, index := range devices {
		if p.egress != nil { // before the programs whose packets it completes
			if err := p.attachTC(p.links.egress, "egress", p.egress, ebpf.AttachTCXEgress, name, index, o.TCLast); err != nil {
				return nil, err
			}
		}
		if p.tc == nil { // an edge
			continue
		}
		if err := p.attachTC(p.links.tc, "tc", p.ingress(), ebpf.AttachTCXIngress, name, index, o.TCLast); err != nil {
			return nil, err
		}
	}
	modes := map[string]XDPMode{}
	for name, index := range devices {
		if p.xdp == nil { // a server behind an edge
			break
		}
		if err := p.attachXDP(name, index, o); err != nil {
			return nil, err
		}
		modes[name] = attachedMode(index)
	}
	return modes, nil
}

// takeOver updates the pinned link, if there is one that still works, to the new
// program. nil, nil if there is none. extend is for an XDP program behind a dispatcher.
func takeOver(path string, prog *ebpf.Program, extend extender) (*attachment, error) {
	l, err := openHook(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pinned link %s: %w; remove that file and start again", path, err)
	}
	before, err := programOf(l, path)
	if errors.Is(err, unix.EPERM) { // it could not be restored later
		l.Close()
		return nil, fmt.Errorf("pinned link %s: its program may not be opened: %w; start once as root, or take the instance down with `tidegate off` first", path, err)
	}
	beside, _ := l.(*dispatchedHook)
	if beside != nil {
		beside.extend = extend
	}
	if err == nil {
		err = l.Update(prog)
	}
	if err != nil && beside != nil && !errors.Is(err, os.ErrNotExist) { // it still exists
		l.Close()
		return nil, explainJoin(filepath.Base(path), err)
	}
	if err != nil { // its interface is gone, or the kind has changed
		l.Close()
		return nil, os.Remove(path)
	}
	return &attachment{link: l, path: path, prog: prog, before: before}, nil
}

// programOf opens the program that a pinned link runs: by its own pin, or by its ID, which takes CAP_SYS_ADMIN.
func programOf(l hook, path string) (*ebpf.Program, error) {
	runs, err := l.program()
	if err != nil {
		return nil, err
	}
	for _, pin := range []string{programPin(path), path} { // the latter of a filterHook
		pinned, err := ebpf.LoadPinnedProgram(pin, nil)
		if err != nil {
			continue
		}
		if id, err := proginfo.ID(pinned); err == nil && id == runs {
			return pinned, nil
		}
		pinned.Close()
	}
	return ebpf.NewProgramFromID(runs)
}

// programPin is where the program of a pinned link is pinned: runs-xdp-<interface> and so on.
func programPin(link string) string {
	return filepath.Join(filepath.Dir(link), "runs-"+filepath.Base(link))
}

// pinProgram lets a later process that may not open programs by ID take the link over.
func (a *attachment) pinProgram() error {
	if a.prog == nil {
		return nil
	}
	own, err := a.prog.Clone() // one program has several links, and each its own pin
	if err != nil {
		return err
	}
	defer own.Close()
	path := programPin(a.path)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return own.Pin(path)
}

// pinNew pins a new link.
func pinNew(l hook, path string) (*attachment, error) {
	if err := l.Pin(path); err != nil {
		_ = l.Detach()
		l.Close()
		return nil, fmt.Errorf("pin %s: %w", path, err)
	}
	return &attachment{link: l, path: path}, nil
}

// attachSockops attaches beside the sock_ops program of an earlier process, which goes on
// receiving socket events until Commit.
func (p *Plane) attachSockops(cgroup string) error {
	l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: ebpf.AttachCGroupSockOps, Program: p.sockops})
	if err != nil {
		return fmt.Errorf("sock_ops on %s: %w", cgroup, err)
	}
	path := filepath.Join(p.dir, fmt.Sprintf("%s-%d", sockopsPin, os.Getpid()))
	_ = os.Remove(path) // left by a killed start with the same PID
	p.links.sockops, err = pinNew(linkHook{l}, path)
	return err
}

func (p *Plane) attachTC(set map[string]*attachment, kind string, prog *ebpf.Program, at ebpf.AttachType, name string, index int, last bool) error {
	path := filepath.Join(p.dir, pinName(kind, name))
	a, err := takeOver(path, prog, nil)
	if err != nil {
		return err
	}
	if a == nil {
		l, err := newTCHook(prog, index, at, last)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		if a, err = pinNew(l, path); err != nil {
			return err
		}
		a.prog = prog
	}
	set[name] = a
	return nil
}

// newTCHook attaches before or after all other programs, by TCX where the kernel has it.
func newTCHook(prog *ebpf.Program, index int, at ebpf.AttachType, last bool) (hook, error) {
	anchor := link.Head()
	if last {
		anchor = link.Tail()
	}
	if !withoutTCX {
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: at, Anchor: anchor})
		if err == nil {
			return linkHook{l}, nil
		}
		if !errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("TCX: %w", err)
		}
	}
	return attachFilter(prog, index, at, last)
}
