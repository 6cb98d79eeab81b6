// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"tidegate/internal/dispatcher"
)

func (p *Plane) attachXDP(name string, index int, o AttachOptions) error {
	if err := p.FollowMembers(); err != nil {
		return err
	}
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
	return p.replaceLink(a, name, index, want)
}

// replaceLink attaches and pins in place of a link that has been detached.
func (p *Plane) replaceLink(a *attachment, name string, index int, want XDPMode) error {
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
	if errors.Is(err, errFarEnd) && !errors.Is(err, errHidden) {
		if a.alone == nil {
			a.alone = map[string]bool{}
		}
		a.alone[name] = true
	}
}

func (a *attachments) forgetRefusal(name string) {
	delete(a.refused, name)
	delete(a.alone, name)
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
