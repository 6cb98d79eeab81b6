// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Traffic that the gate must leave alone.

// serverDials opens a connection from the server to the same port of the client.
func (w *world) serverDials(ipv6 bool) error {
	fd, err := socket(w.Client, ipv6, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(w.ClientAddr(ipv6), webPort))); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	l := &listener{fd: fd}
	c, err := dialer{from: w.Server, to: netip.AddrPortFrom(w.ClientAddr(ipv6), webPort)}.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := l.accept()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := transfer(c, s, []byte("out")); err != nil {
		return err
	}
	return transfer(s, c, []byte("back"))
}

// overLoopback connects the server to its own service, by both of its addresses.
func (w *world) overLoopback(ipv6 bool) error {
	loopback := netip.MustParseAddr("127.0.0.1")
	if ipv6 {
		loopback = netip.IPv6Loopback()
	}
	for _, a := range []netip.Addr{loopback, w.ServerAddr(ipv6)} {
		c, err := dialer{from: w.Server, to: netip.AddrPortFrom(a, webPort)}.dial()
		if err != nil {
			return err
		}
		err = c.ping()
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// datagramSocket makes a bound and connected socket.
func datagramSocket(n *rig.Namespace, kind, proto int, from, to netip.AddrPort) (conn, error) {
	domain := unix.AF_INET
	if from.Addr().Is6() {
		domain = unix.AF_INET6
	}
	var fd int
	err := n.Do(func() (err error) {
		fd, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
		return err
	})
	if err != nil {
		return conn{}, err
	}
	c, err := newConn(fd)
	if err == nil {
		err = unix.Bind(fd, sockaddr(from))
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	return c, err
}

func (w *world) udpEcho(ipv6 bool) error {
	client, server := netip.AddrPortFrom(w.ClientAddr(ipv6), 5353), netip.AddrPortFrom(w.ServerAddr(ipv6), webPort)
	c, err := datagramSocket(w.Client, unix.SOCK_DGRAM, unix.IPPROTO_UDP, client, server)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := datagramSocket(w.Server, unix.SOCK_DGRAM, unix.IPPROTO_UDP, server, client)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := transfer(c, s, []byte("question")); err != nil {
		return err
	}
	return transfer(s, c, []byte("answer"))
}

// icmpEcho sends one echo request and expects its reply.
func (w *world) icmpEcho(ipv6 bool) error {
	client, server := netip.AddrPortFrom(w.ClientAddr(ipv6), 0), netip.AddrPortFrom(w.ServerAddr(ipv6), 0)
	proto, reply := unix.IPPROTO_ICMP, byte(0)
	request := []byte{8, 0, 0, 0, 't', 'g', 0, 1}
	if ipv6 {
		proto, reply = unix.IPPROTO_ICMPV6, 129
		request[0] = 128 // the kernel fills the checksum in
	} else {
		sum := ^uint16(0x0800 + 0x7467 + 1)
		request[2], request[3] = byte(sum>>8), byte(sum)
	}
	c, err := datagramSocket(w.Client, unix.SOCK_RAW, proto, client, server)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(request); err != nil {
		return err
	}
	buf := make([]byte, 256)
	for range 16 { // other ICMP may arrive in between
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		if at := bytes.Index(buf[:n], request[4:]); at >= 4 && buf[at-4] == reply {
			return nil
		}
	}
	return fmt.Errorf("no reply among 16 packets")
}
