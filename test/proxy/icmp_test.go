// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// A router beyond the box reports that the server's packets are too big: it
// quotes the numbers that the client sees, and the server has to recognise
// its own.
func TestPacketTooBig(t *testing.T) {
	const smaller = 1000
	w := newWorld(t, false)
	accepted := make(chan *net.TCPConn, 1)
	w.serve(func(c *net.TCPConn) { accepted <- c })
	w.start(w.config("cookie"))
	w.acquaint(false)
	(<-accepted).Close()
	seen := w.capture()
	c, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The server accepts only ICMP errors that quote unacknowledged data. More
	// than the client's window is in flight, so there always is some.
	server := <-accepted
	defer server.Close()
	data := make([]byte, 16<<20)
	go func() { _, _ = server.Write(data) }()
	w.await("the server's path MTU", func() bool {
		segment, err := seen()
		if err != nil {
			t.Fatal(err)
		}
		w.sendTooBig(segment, smaller)
		return tcpInfo(t, server).Pmtu == smaller
	})
	if w.counters()["icmp_translated"] == 0 {
		t.Error("no ICMP error was counted as translated")
	}
	if n, err := io.ReadFull(c, data); err != nil {
		t.Errorf("after it, %d bytes came: %v", n, err)
	}
}

// capture returns a function that returns the newest data segment from the server
// as the client's interface sees it, from its IP header on.
func (w *world) capture() func() ([]byte, error) {
	w.t.Helper()
	var fd int
	err := w.Client.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(fd) })
	tv := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		w.t.Fatal(err)
	}
	from := w.ServiceAddr(false, port)
	return func() ([]byte, error) {
		var newest []byte
		for {
			b := make([]byte, 2048)
			flags := 0
			if newest != nil {
				flags = unix.MSG_DONTWAIT
			}
			n, _, err := unix.Recvfrom(fd, b, flags)
			if newest != nil && errors.Is(err, unix.EAGAIN) {
				return newest, nil
			}
			if err != nil {
				return nil, err
			}
			src, _ := netip.AddrFromSlice(b[12:16])
			if n > 200 && src == from.Addr() && b[9] == unix.IPPROTO_TCP &&
				binary.BigEndian.Uint16(b[20:]) == port {
				newest = b[:n]
			}
		}
	}
}

// sendTooBig sends the server an ICMP "fragmentation needed" (RFC 1191) that
// quotes the segment's IP header and eight bytes, from the client's machine.
func (w *world) sendTooBig(segment []byte, mtu uint16) {
	w.t.Helper()
	m := make([]byte, 8+28)
	m[0], m[1] = 3, 4
	binary.BigEndian.PutUint16(m[6:], mtu)
	copy(m[8:], segment[:28])
	var sum uint32
	for i := 0; i < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum+sum>>16))
	err := w.Client.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, m, 0, &unix.SockaddrInet4{Addr: w.ServiceAddr(false, port).Addr().As4()})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }
