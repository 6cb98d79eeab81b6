package plane

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
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
}

// attachments are the links of one instance, pinned as
// xdp-<interface>, tc-<interface> and sockops.
type attachments struct {
	dir     string
	xdp, tc map[string]link.Link
	sockops link.Link
}

// Attach installs the programs: first what only listens (sock_ops, the socket
// iterator), then TC, and XDP last, so that no cookie is sent before somebody
// can honour it. Links that an earlier process of the instance left pinned are
// taken over and change their program in one step. It returns the XDP mode in
// use for each interface. On failure, what this call attached is taken off.
func (p *Plane) Attach(o AttachOptions) (map[string]XDPMode, error) {
	p.dir = PinDir(o.BPFFS, o.Instance)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w; is a BPF file system mounted at %s?", err, o.BPFFS)
	}
	p.links = &attachments{dir: p.dir, xdp: map[string]link.Link{}, tc: map[string]link.Link{}}
	modes, err := p.attachAll(o)
	if err != nil {
		_ = p.Detach()
		return nil, err
	}
	if err := p.pinMaps(); err != nil {
		_ = p.Detach()
		return nil, err
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
	p.links.dropStale(devices)
	if err := p.attachSockops(o.CgroupRoot); err != nil {
		return nil, err
	}
	if err := p.seedSocketFilter(); err != nil {
		return nil, err
	}
	for name, index := range devices {
		if err := p.attachTC(name, index); err != nil {
			return nil, err
		}
	}
	modes := map[string]XDPMode{}
	for name, index := range devices {
		mode, err := p.attachXDP(name, index, o.XDPMode)
		if err != nil {
			return nil, err
		}
		modes[name] = mode
	}
	return modes, nil
}

// takeOver gives the pinned link, if there is one that still works, the new
// program. nil, nil if there is none.
func takeOver(path string, prog *ebpf.Program) (link.Link, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pinned link %s: %w; remove that file and start again", path, err)
	}
	if err := l.Update(prog); err != nil { // its interface is gone, or the kind has changed
		l.Close()
		return nil, os.Remove(path)
	}
	return l, nil
}

func (p *Plane) attachSockops(cgroup string) error {
	path := filepath.Join(p.dir, "sockops")
	l, err := takeOver(path, p.sockops)
	if err != nil {
		return err
	}
	if l == nil {
		l, err = link.AttachCgroup(link.CgroupOptions{
			Path: cgroup, Attach: ebpf.AttachCGroupSockOps, Program: p.sockops})
		if err != nil {
			return fmt.Errorf("sock_ops on %s: %w", cgroup, err)
		}
		if err := l.Pin(path); err != nil {
			l.Close()
			return fmt.Errorf("pin %s: %w", path, err)
		}
	}
	p.links.sockops = l
	return nil
}

// seedSocketFilter walks the namespace's TCP sockets once.
func (p *Plane) seedSocketFilter() error {
	l, err := link.AttachIter(link.IterOptions{Program: p.iter})
	if err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	defer l.Close()
	r, err := l.Open()
	if err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("TCP iterator: %w", err)
	}
	return nil
}

func (p *Plane) attachTC(name string, index int) error {
	path := filepath.Join(p.dir, "tc-"+name)
	l, err := takeOver(path, p.tc)
	if err != nil {
		return err
	}
	if l == nil {
		l, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: p.tc,
			Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
		if err != nil {
			return fmt.Errorf("interface %s: TCX ingress: %w", name, err)
		}
		if err := l.Pin(path); err != nil {
			l.Close()
			return fmt.Errorf("pin %s: %w", path, err)
		}
	}
	p.links.tc[name] = l
	return nil
}

func (p *Plane) attachXDP(name string, index int, want XDPMode) (XDPMode, error) {
	path := filepath.Join(p.dir, "xdp-"+name)
	l, err := takeOver(path, p.xdp)
	if err != nil {
		return "", err
	}
	mode := want
	if l == nil {
		if l, mode, err = newXDPLink(p.xdp, name, index, want); err != nil {
			return "", err
		}
		if err := l.Pin(path); err != nil {
			l.Close()
			return "", fmt.Errorf("pin %s: %w", path, err)
		}
	}
	p.links.xdp[name] = l
	return mode, nil
}

func newXDPLink(prog *ebpf.Program, name string, index int, want XDPMode) (link.Link, XDPMode, error) {
	var nativeErr error
	if want != XDPGeneric {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			return l, XDPNative, nil
		}
		nativeErr = err
		if want == XDPNative || errors.Is(err, unix.EBUSY) {
			return nil, "", explainXDP(name, err)
		}
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: link.XDPGenericMode})
	if err != nil {
		return nil, "", explainXDP(name, errors.Join(nativeErr, err))
	}
	return l, XDPGeneric, nil
}

func explainXDP(name string, err error) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("interface %s: another XDP program is attached; take it off with `ip link set dev %s xdp off`, or leave %s out", name, name, name)
	}
	return fmt.Errorf("interface %s: XDP: %w; xdp_mode: generic works on every driver", name, err)
}

// pinMaps pins the maps that `status` and a later process read.
func (p *Plane) pinMaps() error {
	for name, m := range p.maps {
		path := filepath.Join(p.dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := m.Pin(path); err != nil {
			return fmt.Errorf("pin %s: %w", path, err)
		}
	}
	return nil
}

// DetachXDP stops answering SYNs; ACKs are still verified.
func (p *Plane) DetachXDP() error {
	if p.links == nil {
		return nil
	}
	return detachAll(p.links.xdp)
}

// Detach takes everything off and removes the pins. Safe to call twice.
func (p *Plane) Detach() error {
	if p.links == nil {
		return nil
	}
	errs := []error{detachAll(p.links.xdp), detachAll(p.links.tc)}
	if p.links.sockops != nil {
		errs = append(errs, detachLink(p.links.sockops))
		p.links.sockops = nil
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}

func detachAll(links map[string]link.Link) error {
	var errs []error
	for name, l := range links {
		errs = append(errs, detachLink(l))
		delete(links, name)
	}
	return errors.Join(errs...)
}

// detachLink removes the pin and closes the last handle, which detaches.
func detachLink(l link.Link) error {
	err := l.Unpin()
	return errors.Join(err, l.Close())
}

func (a *attachments) close() {
	for _, set := range []map[string]link.Link{a.xdp, a.tc} {
		for _, l := range set {
			l.Close()
		}
	}
	if a.sockops != nil {
		a.sockops.Close()
	}
}

// dropStale removes pinned links of interfaces that this start does not name, or
// that belong to another device than the one that has the name now.
func (a *attachments) dropStale(devices map[string]int) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		kind, name, ok := cutKind(e.Name())
		if !ok {
			continue
		}
		path := filepath.Join(a.dir, e.Name())
		index, wanted := devices[name]
		if !wanted || linkIfindex(path, kind) != index {
			_ = os.Remove(path) // the last reference: the kernel detaches it
		}
	}
}

func cutKind(file string) (kind, name string, ok bool) {
	for _, kind := range []string{"xdp", "tc"} {
		if len(file) > len(kind)+1 && file[:len(kind)+1] == kind+"-" {
			return kind, file[len(kind)+1:], true
		}
	}
	return "", "", false
}

func linkIfindex(path, kind string) int {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return -1
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return -1
	}
	if x := info.XDP(); kind == "xdp" && x != nil {
		return int(x.Ifindex)
	}
	if x := info.TCX(); kind == "tc" && x != nil {
		return int(x.Ifindex)
	}
	return -1
}
