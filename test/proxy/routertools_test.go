// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// What any router forwards, whatever it protects; it starts with empty neighbour
// tables, and neither client nor server has an entry for the router.

// forgetNeighbours empties the neighbour tables of the client, the server and the box, but not the
// attacker's, which answers nothing.
func (w *world) forgetNeighbours() {
	w.t.Helper()
	if rig.HaveIPv6() && !w.linkLocal { // the lab assigns none, and without one a kernel sends no neighbour solicitation
		w.ip(w.Proxy, "addr add fe80::1/64 dev tg-legit nodad", "addr add fe80::1/64 dev tg-inner nodad")
		w.ip(w.Client, "addr add fe80::2/64 dev tg-client nodad")
		w.ip(w.Server, "addr add fe80::2/64 dev tg-server nodad")
		w.linkLocal = true
	}
	for _, at := range []struct {
		n   *rig.Namespace
		dev string
	}{{w.Client, "tg-client"}, {w.Proxy, "tg-legit"}, {w.Proxy, "tg-inner"}, {w.Server, "tg-server"}} {
		w.ip(at.n, "neigh flush nud all dev "+at.dev)
	}
}

// neighbours are the box's entries, as ip(8) prints them.
func (w *world) neighbours(dev string) []string {
	w.t.Helper()
	var out harness.Output
	cmd := exec.Command("ip", "neigh", "show", "nud", "all", "dev", dev)
	cmd.Stdout = &out
	if err := w.Proxy.Do(cmd.Run); err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// datagrams is a connected UDP socket in a namespace, with the ICMP errors it receives.
type datagrams struct {
	fd   int
	ipv6 bool
}

func (w *world) datagrams(from *rig.Namespace, to netip.AddrPort, ttl int, df bool) datagrams {
	w.t.Helper()
	d := datagrams{ipv6: to.Addr().Is6()}
	family, level, ttlOption, dfOption, errOption := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR
	var sa unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(to.Addr().AsSlice()[:4]), Port: int(to.Port())}
	if d.ipv6 {
		family, level, ttlOption, dfOption, errOption = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR
		sa = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	}
	discover := unix.IP_PMTUDISC_DONT
	if df {
		discover = unix.IP_PMTUDISC_DO
	}
	err := from.Do(func() (err error) {
		if d.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		for _, o := range [][2]int{{ttlOption, ttl}, {dfOption, discover}, {errOption, 1}} {
			if err := unix.SetsockoptInt(d.fd, level, o[0], o[1]); err != nil {
				return err
			}
		}
		tv := unix.Timeval{Sec: 1}
		if err := unix.SetsockoptTimeval(d.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		return unix.Connect(d.fd, sa)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(d.fd) })
	return d
}

// ask sends that many bytes and reads the answer.
func (d datagrams) ask(size int) error {
	b := make([]byte, size+1)
	if _, err := unix.Write(d.fd, b[:size]); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	n, err := unix.Read(d.fd, b)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if n != size {
		return fmt.Errorf("%d bytes went and %d came", size, n)
	}
	return nil
}

// icmpError waits for an ICMP error about what was sent, and returns type, code, and further number.
func (d datagrams) icmpError(limit time.Duration) (kind, code uint8, info uint32, err error) {
	fds := []unix.PollFd{{Fd: int32(d.fd)}} // errors are always reported
	for deadline := time.Now().Add(limit); ; {
		if time.Now().After(deadline) {
			return 0, 0, 0, fmt.Errorf("no ICMP error came within %v", limit)
		}
		if _, err := unix.Poll(fds, 100); err != nil && err != unix.EINTR {
			return 0, 0, 0, err
		}
		oob := make([]byte, 512)
		_, n, _, _, err := unix.Recvmsg(d.fd, nil, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return 0, 0, 0, err
		}
		for _, m := range messages {
			// struct sock_extended_err: errno 4, origin 1, type 1, code 1, pad 1, info 4
			if e := m.Data; len(e) >= 16 && (m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR ||
				m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR) && e[4] >= unix.SO_EE_ORIGIN_ICMP {
				return e[5], e[6], binary.NativeEndian.Uint32(e[8:]), nil
			}
		}
	}
}

// echoes sends ICMP echo requests, each when the previous one has been answered or timed out, and
// counts the answers, including duplicates.
func (w *world) echoes(from *rig.Namespace, to netip.Addr, requests, size int) (answers int) {
	w.t.Helper()
	network, listen, request, reply := "ip4:icmp", "0.0.0.0", byte(8), byte(0)
	if to.Is6() {
		network, listen, request, reply = "ip6:ipv6-icmp", "::", 128, 129
	}
	var c net.PacketConn
	err := from.Do(func() (err error) {
		c, err = net.ListenPacket(network, listen)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 65536)
	hear := func(limit time.Duration) bool {
		_ = c.SetReadDeadline(time.Now().Add(limit))
		for {
			k, _, err := c.ReadFrom(b)
			if err != nil {
				return false
			}
			if k == 8+size && b[0] == reply && binary.BigEndian.Uint16(b[4:]) == 0x7467 {
				answers++
				return true
			}
		}
	}
	for i := range requests {
		m := make([]byte, 8+size)
		m[0] = request
		binary.BigEndian.PutUint16(m[4:], 0x7467)
		binary.BigEndian.PutUint16(m[6:], uint16(i))
		if !to.Is6() { // of IPv6 the kernel makes it
			binary.BigEndian.PutUint16(m[2:], checksum(m))
		}
		if _, err := c.WriteTo(m, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			w.t.Fatal(err)
		}
		hear(10 * time.Second)
	}
	for hear(300 * time.Millisecond) { // duplicates
	}
	return answers
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// router is a world whose box routes and whose neighbour tables are empty.
func router(t *testing.T) *world {
	w := newWorld(t, false)
	w.ip(w.Proxy, "addr add 198.18.5.1/24 dev tg-inner") // a prefix with unused addresses
	if testPlane != rig.PlaneDPDK {                      // else start does it
		w.forgetNeighbours()
	}
	w.start(w.config("cookie"))
	return w
}

// promptly expects a connection to end within 900 ms: a lost SYN is retransmitted after a second. A busy
// machine is slower now and then, so there are three attempts, with `again` before each but the first.
func (w *world) promptly(ipv6 bool, again func()) {
	w.t.Helper()
	var took time.Duration
	for i := range 3 {
		if i > 0 {
			again()
		}
		began := time.Now()
		if err := w.ping(ipv6); err != nil {
			w.t.Fatal(err)
		}
		if took = time.Since(began); took < 900*time.Millisecond {
			return
		}
	}
	w.t.Errorf("three times a segment was lost and sent again: the last connection took %v", took)
}

// sendUncut sends an unfragmented IPv4 datagram without DF, whatever the kernel believes the path's
// MTU to be.
func (w *world) sendUncut(from *rig.Namespace, to netip.AddrPort, size int) {
	w.t.Helper()
	err := from.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE); err != nil {
			return err
		}
		p := make([]byte, 28+size)
		p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_UDP
		dst := to.Addr().As4()
		copy(p[16:], dst[:])
		src := clientAddr(false).As4()
		if from == w.Server {
			src = w.ServiceAddr(false, 0).Addr().As4()
		}
		copy(p[12:], src[:])
		binary.BigEndian.PutUint16(p[4:], 0x4711) // or the kernel sets DF, too
		binary.BigEndian.PutUint16(p[20:], 4711)
		binary.BigEndian.PutUint16(p[22:], to.Port())
		binary.BigEndian.PutUint16(p[24:], uint16(8+size)) // checksum 0: none
		return unix.Sendto(fd, p, 0, &unix.SockaddrInet4{Addr: dst})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
