// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// The loopback device has no native XDP: auto falls back and keeps the reason; native fails.
func TestNativeRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("XDP needs root")
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if err := inNamespace(func() error {
		const lo = 1
		if _, _, err := newXDPLink(prog, "lo", lo, XDPNative, false); err == nil {
			return errors.New("native XDP on lo")
		}
		l, refused, err := newXDPLink(prog, "lo", lo, XDPAuto, false)
		if err != nil {
			return err
		}
		defer l.Close()
		p := Plane{links: &attachments{}}
		p.links.noteRefusal("lo", refused)
		if attachedMode(lo) != XDPGeneric || refused == nil || p.NativeRefused()["lo"] != refused.Error() {
			t.Errorf("mode %s, refused: %v, kept: %v", attachedMode(lo), refused, p.NativeRefused())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Answers by native XDP arrive at the far end of a veth only if a program runs there: auto checks, in
// this network namespace and in another.
func TestFarEndOfVeth(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("XDP needs root")
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends in a network namespace of its own
		done <- func() error {
			there, err := netns.New()
			if err != nil {
				return err
			}
			defer there.Close()
			here, err := netns.New()
			if err != nil {
				return err
			}
			defer here.Close()
			for name, peer := range map[string]any{"near": nil, "away": netlink.NsFd(there)} {
				veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-far", PeerNamespace: peer}
				if err := netlink.LinkAdd(veth); err != nil {
					return err
				}
				dev, err := netlink.LinkByName(name)
				if err != nil {
					return err
				}
				index := dev.Attrs().Index
				l, why, err := newXDPLink(prog, name, index, XDPAuto, true)
				if err != nil {
					return err
				}
				if !errors.Is(why, errFarEnd) || attachedMode(index) != XDPGeneric {
					t.Errorf("%s, nothing at the far end: %s, because %v", name, attachedMode(index), why)
				}
				l.Close()
				if peer != nil {
					if err := netns.Set(there); err != nil {
						return err
					}
				}
				far, err := netlink.LinkByName(name + "-far")
				if err != nil {
					return err
				}
				at, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: far.Attrs().Index, Flags: link.XDPDriverMode})
				if err != nil {
					return err
				}
				if err := netns.Set(here); err != nil {
					return err
				}
				l, why, err = newXDPLink(prog, name, index, XDPAuto, true)
				if err != nil {
					return err
				}
				if why != nil || attachedMode(index) != XDPNative {
					t.Errorf("%s, a program at the far end: %s, because %v", name, attachedMode(index), why)
				}
				l.Close()
				at.Close()
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
