// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/rig"
)

var holdCount atomic.Uint32

// holdDispatcher keeps prog in the kernel's XDP dispatcher until the
// result is closed.
//
// BPF_PROG_TEST_RUN puts its program into the dispatcher for the duration of one
// call, and each change there waits for RCU: 20 to 30 ms a call on Linux 6.18
// (bpf_prog_test_run_xdp, bpf_dispatcher_update), which would turn a paced
// flood into bursts. A program that is attached somewhere is already in it, so
// prog is attached to a veth that stays down and so never runs it.
func holdDispatcher(n *rig.Namespace, prog *ebpf.Program) (io.Closer, error) {
	id := holdCount.Add(1)
	h := &dispatcherHold{ns: n, name: fmt.Sprintf("tg-hold%d", id)}
	err := n.Do(func() error {
		v := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: h.name},
			PeerName:  fmt.Sprintf("tg-holdp%d", id),
		}
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		l, err := netlink.LinkByName(h.name)
		if err != nil {
			return err
		}
		h.link, err = link.AttachXDP(link.XDPOptions{
			Program: prog, Interface: l.Attrs().Index, Flags: link.XDPGenericMode,
		})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep the generator in the XDP dispatcher: %w", err), h.Close())
	}
	return h, nil
}

type dispatcherHold struct {
	ns   *rig.Namespace
	name string
	link link.Link
}

func (h *dispatcherHold) Close() error {
	var err error
	if h.link != nil {
		err = h.link.Close()
	}
	return errors.Join(err, h.ns.Do(func() error {
		l, err := netlink.LinkByName(h.name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}))
}
