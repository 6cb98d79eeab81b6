// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"net/netip"

	"tidegate/internal/lab/labbpf"
)

// Wire is a lab for tests that handle every frame between a client and a server
// themselves: the two hosts appear to be neighbours, and between them is a
// namespace with two ports that forwards nothing. Packet sockets on these ports
// see what the hosts send, with complete checksums and no longer than the MTU.
//
//	client (tg-client) --- (tg-outer) middle (tg-inner) --- (tg-server) server
type Wire struct {
	Client, Middle, Server *Namespace
	ClientPort, OuterPort  *Port
	InnerPort, ServerPort  *Port

	// Instance is a name for a gate that Clean recognizes as this process's.
	Instance string

	closers []func() error
}

// NewWire makes a wire; tag distinguishes those of one process.
func NewWire(tag string) (w *Wire, err error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	w = &Wire{Instance: InstPrefix + o.String() + "-" + tag}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
			w = nil
		}
	}()
	for role, at := range map[string]**Namespace{"client": &w.Client, "middle": &w.Middle, "server": &w.Server} {
		n, err := MakeNamespace(o, role+"-"+tag)
		if err != nil {
			return w, err
		}
		*at = n
		w.closers = append(w.closers, n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return w, err
		}
	}
	if HaveIPv6() { // the middle must send nothing of its own
		if err := w.Middle.SetSysctls([2]string{"net.ipv6.conf.default.disable_ipv6", "1"}); err != nil {
			return w, err
		}
	}
	if w.ClientPort, w.OuterPort, err = NewVeth(o, w.Client, "tg-client", w.Middle, "tg-outer"); err != nil {
		return w, err
	}
	if w.ServerPort, w.InnerPort, err = NewVeth(o, w.Server, "tg-server", w.Middle, "tg-inner"); err != nil {
		return w, err
	}
	err = errors.Join(
		addressHost(w.ClientPort, w.ServerPort, hostsClient4, hostsServer4, hostsClient6, hostsServer6),
		addressHost(w.ServerPort, w.ClientPort, hostsServer4, hostsClient4, hostsServer6, hostsClient6),
		w.ClientPort.DisableTxChecksum(), w.ServerPort.DisableTxChecksum())
	if err != nil {
		return w, err
	}
	return w, errors.Join(w.routeAll(), w.attachPass(), w.ClientPort.AwaitUp(), w.ServerPort.AwaitUp(),
		w.OuterPort.AwaitUp(), w.InnerPort.AwaitUp())
}

// routeAll routes whatever the server sends to the middle, as if the client's address
// were its router.
func (w *Wire) routeAll() error {
	return w.Server.Do(func() error {
		err := AddRoute(w.ServerPort.Index, netip.MustParsePrefix("0.0.0.0/0"), hostsClient4.Addr())
		if HaveIPv6() {
			err = errors.Join(err, AddRoute(w.ServerPort.Index, netip.MustParsePrefix("::/0"), hostsClient6.Addr()))
		}
		return err
	})
}

// attachPass attaches a program to the middle's inner end, so that what the server's
// programs send by XDP_TX arrives.
func (w *Wire) attachPass() error {
	var objs labbpf.LabFloodObjects
	if err := labbpf.LoadLabFloodObjects(&objs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	w.closers = append(w.closers, objs.Close)
	l, err := w.InnerPort.AttachXDP(objs.TgLabPass)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, l.Close)
	return nil
}

// ServerAddr is the server's address of a family.
func (w *Wire) ServerAddr(ipv6 bool) netip.Addr { return (*Hosts)(nil).ServerAddr(ipv6) }

// ClientAddr is the client's address of a family.
func (w *Wire) ClientAddr(ipv6 bool) netip.Addr { return (*Hosts)(nil).ClientAddr(ipv6) }

// Close takes everything down in reverse order and reports every failure.
func (w *Wire) Close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	w.closers = nil
	return errors.Join(errs...)
}
