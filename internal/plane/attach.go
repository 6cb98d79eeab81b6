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
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"tidegate/internal/dispatcher"
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
	sockops         *attachment
}

// Attach installs the programs: first those that only observe (sock_ops, the socket
// iterator), then TC, and XDP last, so that no cookie is sent before it can be
// verified. Links that an earlier process of the instance left pinned are taken
// over and change their program in one step. It returns the XDP mode in use for
// each interface. On failure everything is as before; after success call Commit or Undo.
func (p *Plane) Attach(o AttachOptions) (map[string]XDPMode, error) {
	p.dir, p.priority = PinDir(o.BPFFS, o.Instance), o.Priority
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
		if id, err := idOf(pinned); err == nil && id == runs {
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

func (p *Plane) attachXDP(name string, index int, o AttachOptions) error {
	path := filepath.Join(p.dir, pinName("xdp", name))
	a, err := takeOver(path, p.xdp, p.extend)
	if err != nil {
		return err
	}
	if a != nil && o.XDPMode != XDPAuto && attachedMode(index) != o.XDPMode {
		if _, beside := a.link.(*dispatchedHook); beside {
			p.links.xdp[name] = a // for undo
			return fmt.Errorf("interface %s: the XDP dispatcher there runs in %s mode: set `xdp_mode: auto`, or run `tidegate off` first", name, attachedMode(index))
		}
		// A link keeps its mode for life, and a device takes only one mode at a time: for
		// a moment SYNs go to the kernel.
		return p.reattachXDP(a, name, index, o.XDPMode)
	}
	if a == nil {
		l, refused, err := p.newXDPHook(name, index, o)
		if err != nil {
			return err
		}
		p.links.noteRefusal(name, refused)
		if a, err = pinNew(l, path); err != nil {
			return err
		}
		a.prog = p.xdp
	}
	p.links.xdp[name] = a
	return nil
}

// newXDPHook attaches alone, or beside others.
func (p *Plane) newXDPHook(name string, index int, o AttachOptions) (hook, error, error) {
	if o.Dispatcher != "" && joins(index, o.Dispatcher) {
		return p.join(name, index, o)
	}
	l, refused, err := newXDPLink(p.xdp, name, index, o.XDPMode, p.farEnd)
	if err != nil {
		return nil, nil, err
	}
	return linkHook{l}, refused, nil
}

// reattachXDP attaches again, in another mode, on an interface whose link was taken over, and remembers the old mode.
func (p *Plane) reattachXDP(a *attachment, name string, index int, want XDPMode) error {
	a.was, a.device, a.index = attachedMode(index), name, index
	p.links.xdp[name] = a // for undo, should anything below fail
	before := a.before
	a.before = nil
	err := a.detach()
	a.before = before
	if err != nil {
		return err
	}
	l, refused, err := newXDPLink(p.xdp, name, index, want, p.farEnd)
	if err != nil {
		return err
	}
	p.links.noteRefusal(name, refused)
	a.link = linkHook{l}
	if err := l.Pin(a.path); err != nil {
		return fmt.Errorf("pin %s: %w", a.path, err)
	}
	return nil
}

// attachedMode asks the kernel in which mode a device runs its XDP program; empty: it has none.
func attachedMode(index int) XDPMode {
	dev, err := netlink.LinkByIndex(index)
	if err != nil || dev.Attrs().Xdp == nil || !dev.Attrs().Xdp.Attached {
		return ""
	}
	if dev.Attrs().Xdp.AttachMode == nl.XDP_ATTACHED_SKB {
		return XDPGeneric
	}
	return XDPNative
}

// noteRefusal keeps the driver's error for `status`.
func (a *attachments) noteRefusal(name string, err error) {
	if err == nil {
		return
	}
	if a.refused == nil {
		a.refused = map[string]string{}
	}
	a.refused[name] = err.Error()
}

// NativeRefused returns, by interface, why this start attached in generic mode though native was
// tried first. Interfaces attached by an earlier start are not included.
func (p *Plane) NativeRefused() map[string]string {
	if p.links == nil {
		return nil
	}
	return p.links.refused
}

// newXDPLink attaches. nativeErr is why generic XDP was used in place of native.
func newXDPLink(prog *ebpf.Program, name string, index int, want XDPMode, looks bool) (l link.Link, nativeErr, err error) {
	nativeErr, err = inMode(index, want, looks, func(generic bool) (err error) {
		flags := link.XDPDriverMode
		if generic {
			flags = link.XDPGenericMode
		}
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: flags})
		return err
	})
	if err != nil {
		return nil, nil, explainXDP(name, index, err)
	}
	return l, nativeErr, nil
}

// inMode tries the modes that `want` allows. With looks, auto uses generic XDP where answers sent by native XDP would be lost.
// nativeErr is why generic XDP was used in place of native: that, or the driver's error.
func inMode(index int, want XDPMode, looks bool, try func(generic bool) error) (nativeErr, err error) {
	if want == XDPAuto && looks {
		nativeErr = farEnd(index)
	}
	if want != XDPGeneric && nativeErr == nil {
		if err = try(false); err == nil {
			return nil, nil
		}
		nativeErr = err
		if want == XDPNative || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	if err = try(true); err != nil {
		return nil, errors.Join(nativeErr, err)
	}
	return nativeErr, nil
}

func explainXDP(name string, index int, err error) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("interface %s: another XDP program is attached%s: it stays. `ip -d link show dev %s` and `bpftool link` say whose: end it by its own means, or leave %s out", name, foreignOn(index), name, name)
	}
	return fmt.Errorf("interface %s: XDP: %w; xdp_mode: generic works on every driver", name, err)
}

// foreignOn names the XDP program that is already attached, and what would let ours run beside it.
func foreignOn(index int) string {
	s, err := dispatcher.Place{Ifindex: index}.Look()
	if err == nil {
		defer s.Close()
		if s.ID != 0 {
			return " by a dispatcher, which `dispatcher: auto` would join"
		}
		return ""
	}
	return ", " + err.Error()
}
