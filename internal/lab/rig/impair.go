// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A link that delays, loses and reorders packets, in userspace: two TUN devices and a
// goroutine for each direction. A seed and the packet's number decide which packets are
// affected, not time. It needs no kernel feature such as netem.

// Impairment is what happens to packets, in each direction.
type Impairment struct {
	Seed    uint64
	Loss    float64 // share
	Reorder float64 // share of packets that later ones overtake
	Depth   int     // by how many later packets, at most
	Delay   time.Duration
}

// ImpairedHost is a host that reaches the clients' side of a topology, or of
// Hosts, over such a link. It has an address of the clients' range of each family.
type ImpairedHost struct {
	NS          *Namespace
	Addr4       netip.Addr
	Addr6       netip.Addr
	Lost, Moved atomic.Uint64

	tuns []*os.File
	wg   sync.WaitGroup
}

// holdMost is how long a packet is held back at most when no other follows.
const holdMost = 5 * time.Millisecond

// NewImpairedHost makes an impaired host behind the topology's client, which becomes a router.
func NewImpairedHost(t *Topology, tag string, im Impairment) (*ImpairedHost, error) {
	return impairedBehind(t.Client, tag, im)
}

// NewImpairedHost makes an impaired host behind the client, which becomes a router.
func (h *Hosts) NewImpairedHost(tag string, im Impairment) (*ImpairedHost, error) {
	far, err := impairedBehind(h.Client, tag, im)
	if err != nil {
		return nil, err
	}
	err = h.Server.Do(func() error {
		by := func(to, gateway netip.Addr) error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: h.ServerPort.Index, Dst: IpNet(netip.PrefixFrom(to, to.BitLen())), Gw: gateway.AsSlice()})
		}
		err := by(far.Addr4, h.ClientAddr(false))
		if HaveIPv6() {
			err = errors.Join(err, by(far.Addr6, h.ClientAddr(true)))
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	return far, nil
}

func impairedBehind(router *Namespace, tag string, im Impairment) (h *ImpairedHost, err error) {
	h = &ImpairedHost{Addr4: ClientAddr(MaxClients-200, false), Addr6: ClientAddr(MaxClients-200, true)}
	if h.NS, err = NewNamespace("far" + tag); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	forwarding := [][2]string{{"net.ipv4.ip_forward", "1"}}
	if HaveIPv6() {
		forwarding = append(forwarding, [2]string{"net.ipv6.conf.all.forwarding", "1"})
	}
	if err := router.SetSysctls(forwarding...); err != nil {
		return h, err
	}
	far, err := h.tun(h.NS, "tg-far", func(index int) error { return h.addressFar(index) })
	if err != nil {
		return h, err
	}
	near, err := h.tun(router, "tg-near", func(index int) error { return h.routeTo(index) })
	if err != nil {
		return h, err
	}
	h.wg.Go(func() { h.carry(far, near, im, 1) })
	h.wg.Go(func() { h.carry(near, far, im, 2) })
	return h, nil
}

// Close removes link and host.
func (h *ImpairedHost) Close() error {
	var errs []error
	for _, f := range h.tuns {
		errs = append(errs, f.Close())
	}
	h.wg.Wait()
	return errors.Join(append(errs, h.NS.Close())...)
}

// tun makes a TUN device in a namespace; closing its file removes it.
func (h *ImpairedHost) tun(n *Namespace, name string, setUp func(index int) error) (f *os.File, err error) {
	err = n.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		req, err := unix.NewIfreq(name)
		if err == nil {
			req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		}
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("TUN device %s: %w", name, err)
		}
		f = os.NewFile(uintptr(fd), name)
		h.tuns = append(h.tuns, f)
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetTxQLen(l, 5000), netlink.LinkSetUp(l), setUp(l.Attrs().Index))
	})
	return f, err
}

func (h *ImpairedHost) addressFar(index int) error {
	if _, err := LoUp(); err != nil {
		return err
	}
	errs := []error{AddAddr(index, netip.PrefixFrom(h.Addr4, 32)), linkRoute(index, netip.MustParsePrefix("0.0.0.0/0"))}
	if HaveIPv6() {
		errs = append(errs, AddAddr(index, netip.PrefixFrom(h.Addr6, 128)), linkRoute(index, netip.MustParsePrefix("::/0")))
	}
	return errors.Join(errs...)
}

func (h *ImpairedHost) routeTo(index int) error {
	errs := []error{linkRoute(index, netip.PrefixFrom(h.Addr4, 32))}
	if HaveIPv6() {
		errs = append(errs, linkRoute(index, netip.PrefixFrom(h.Addr6, 128)))
	}
	return errors.Join(errs...)
}

func linkRoute(index int, to netip.Prefix) error {
	return netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: IpNet(to), Scope: netlink.SCOPE_LINK})
}

// carry moves packets in one direction until a device is closed.
func (h *ImpairedHost) carry(from, to *os.File, im Impairment, stream uint64) {
	rng := rand.New(rand.NewPCG(im.Seed, stream))
	type late struct {
		packet []byte
		after  int // how many more packets go first
		since  time.Time
	}
	var held []late
	buf := make([]byte, 1<<16)
	send := func(p []byte) { _, _ = to.Write(p) } // a full queue loses it, as on any link
	if im.Delay > 0 {
		var last func()
		send, last = h.delayed(to, im.Delay)
		defer last()
	}
	for {
		wait := time.Time{}
		if len(held) > 0 {
			wait = held[0].since.Add(holdMost)
		}
		_ = from.SetReadDeadline(wait)
		n, err := from.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err == nil {
			// Draw both for each packet: the one must not change the sequence of the other.
			lose, move := rng.Float64() < im.Loss, rng.Float64() < im.Reorder
			behind := 1 + rng.IntN(max(im.Depth, 1))
			switch {
			case lose:
				h.Lost.Add(1)
			case move:
				h.Moved.Add(1)
				held = append(held, late{append([]byte(nil), buf[:n]...), behind, time.Now()})
				continue
			default:
				send(buf[:n])
			}
		}
		rest := held[:0]
		for _, l := range held {
			if l.after--; l.after <= 0 || time.Since(l.since) >= holdMost {
				send(l.packet)
			} else {
				rest = append(rest, l)
			}
		}
		held = rest
	}
}

// delayed returns a function that sends packets after a delay, in their order, and
// one that ends it.
func (h *ImpairedHost) delayed(to *os.File, delay time.Duration) (send func([]byte), end func()) {
	type due struct {
		packet []byte
		at     time.Time
	}
	wire := make(chan due, 10000)
	h.wg.Go(func() {
		for d := range wire {
			time.Sleep(time.Until(d.at))
			_, _ = to.Write(d.packet)
		}
	})
	send = func(p []byte) {
		select {
		case wire <- due{append([]byte(nil), p...), time.Now().Add(delay)}:
		default: // the line is full: lost
			h.Lost.Add(1)
		}
	}
	return send, func() { close(wire) }
}
