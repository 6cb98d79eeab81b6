// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// ErrForeignInterface refuses to send from an interface the lab did not make.
var ErrForeignInterface = errors.New("not an interface made by this lab")

// Port is one end of a veth pair that this process made.
type Port struct {
	NS    *Namespace
	Name  string
	Index int
	MAC   net.HardwareAddr
	alias string

	link link.Link // what AttachXDP attached last
	prog *ebpf.Program
}

// NewVeth joins two namespaces of this process by a veth pair, both ends up.
func NewVeth(o Owner, a *Namespace, nameA string, b *Namespace, nameB string) (*Port, *Port, error) {
	err := a.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: nameA, NumTxQueues: 1, NumRxQueues: 1},
			PeerName:      nameB,
			PeerNamespace: netlink.NsFd(int(b.fd)),
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("veth %s-%s: %w", nameA, nameB, err)
	}
	pa, errA := bringUp(o, a, nameA)
	pb, errB := bringUp(o, b, nameB)
	if err := errors.Join(errA, errB); err != nil {
		return nil, nil, err
	}
	return pa, pb, nil
}

// bringUp marks an end as ours and sets it up.
func bringUp(o Owner, n *Namespace, name string) (*Port, error) {
	p := &Port{NS: n, Name: name, alias: "tidegate-lab " + o.String()}
	err := n.Do(func() error {
		if isBonded(name) {
			if err := bond(name); err != nil {
				return err
			}
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		p.Index, p.MAC = l.Attrs().Index, l.Attrs().HardwareAddr
		if err := netlink.LinkSetAlias(l, p.alias); err != nil {
			return err
		}
		if isInVRF(name) {
			if err := enslave(l); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, n.Name, err)
	}
	return p, nil
}

// Verify checks, on the thread that is about to send, that this thread is
// in a namespace made by this process and that the interface still is the veth
// this process made. Nothing is sent before Verify has succeeded.
func (p *Port) Verify() error {
	if !p.NS.Current() {
		return fmt.Errorf("%s: thread is outside %s: %w", p.Name, p.NS.Name, ErrForeignInterface)
	}
	l, err := netlink.LinkByIndex(p.Index)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	at := l.Attrs()
	if l.Type() != "veth" && !isBonded(p.Name) || at.Name != p.Name || at.Alias != p.alias {
		return fmt.Errorf("%s in %s: %w", at.Name, p.NS.Name, ErrForeignInterface)
	}
	return nil
}

// AttachXDP attaches prog natively. The attachment lives as long as the
// returned link or this process.
func (p *Port) AttachXDP(prog *ebpf.Program) (link.Link, error) {
	var l link.Link
	err := p.NS.Do(func() (err error) {
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: p.Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach XDP to %s in %s: %w", p.Name, p.NS.Name, err)
	}
	p.link, p.prog = l, prog
	return l, nil
}

// DetachXDP detaches what AttachXDP attached last.
func (p *Port) DetachXDP() error {
	if p.link == nil {
		return nil
	}
	return p.link.Close()
}

// AttachXDPAgain attaches what DetachXDP has detached.
func (p *Port) AttachXDPAgain() error {
	_, err := p.AttachXDP(p.prog)
	return err
}

// RxPackets is the number of frames that have arrived at the port, including those
// that an XDP program consumed.
func (p *Port) RxPackets() (uint64, error) {
	var n uint64
	err := p.NS.Do(func() error {
		l, err := netlink.LinkByIndex(p.Index)
		if err != nil {
			return err
		}
		if s := l.Attrs().Statistics; s != nil {
			n = s.RxPackets
		}
		return nil
	})
	return n, err
}

// EnableGRO enables GRO, which starts NAPI on veth: without NAPI at
// the receiving end the kernel drops redirected frames silently (veth_xdp_xmit,
// rq->napi == NULL). It requires that the link be up, and does not help
// frames sent by XDP_TX from an attached program: these need a program at the
// receiving end (see Topology.attachPrograms).
func (p *Port) EnableGRO() error { return p.SetOffload("rx-gro", true) }

// DisableTxChecksum makes the sender fill in checksums, as in frames from a
// wire; otherwise an XDP program sees partial ones (CHECKSUM_PARTIAL).
func (p *Port) DisableTxChecksum() error { return p.SetOffload("tx-checksum-ip-generic", false) }

// EnableTxChecksum makes the sender leave checksums to the device, as containers do by default.
func (p *Port) EnableTxChecksum() error { return p.SetOffload("tx-checksum-ip-generic", true) }

// DisableTxVLAN makes the sender write VLAN tags into frames, as on a wire; otherwise
// they are metadata, which an XDP program does not see.
func (p *Port) DisableTxVLAN() error { return p.SetOffload("tx-vlan-hw-insert", false) }

// SetOffload switches a feature by its name in `ethtool -k`.
func (p *Port) SetOffload(feature string, on bool) error {
	err := p.NS.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.Change(p.Name, map[string]bool{feature: on})
	})
	if err != nil {
		return fmt.Errorf("feature %s of %s in %s: %w", feature, p.Name, p.NS.Name, err)
	}
	return nil
}

// ReplaceXDP replaces the program that the topology attached
// to a far end; closing the result restores it.
func (p *Port) ReplaceXDP(prog *ebpf.Program) (io.Closer, error) {
	if p.link == nil {
		return nil, fmt.Errorf("%s in %s has no program of the lab's", p.Name, p.NS.Name)
	}
	if err := p.link.Update(prog); err != nil {
		return nil, err
	}
	return restore{p}, nil
}

type restore struct{ p *Port }

func (r restore) Close() error { return r.p.link.Update(r.p.prog) }
