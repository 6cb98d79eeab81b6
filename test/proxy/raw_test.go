// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

const (
	fin, syn, rst, psh, ack, ece, cwr = 0x01, 0x02, 0x04, 0x08, 0x10, 0x40, 0x80
)

// seg is a TCP segment as a frame carries it. Its codec is written by hand here, so that the code
// under test is not compared with itself.
type seg struct {
	vlans    []uint16 // tags, outermost first
	from, to netip.AddrPort
	seq, ack uint32
	flags    byte
	window   uint16
	options  []byte // a multiple of four
	data     []byte
}

func tcpSum(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		for i := 0; i < len(p); i += 2 {
			sum += uint32(p[i]) << 8
			if i+1 < len(p) {
				sum += uint32(p[i+1])
			}
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// frame lays the segment out with whole checksums.
func (s seg) frame(dst, src [6]byte) []byte {
	f := append(append([]byte{}, dst[:]...), src[:]...)
	for _, v := range s.vlans {
		f = append(f, 0x81, 0, byte(v>>8), byte(v))
	}
	tcp := make([]byte, 20, 64+len(s.data))
	binary.BigEndian.PutUint16(tcp, s.from.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.to.Port())
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp[12], tcp[13] = byte((20+len(s.options))/4<<4), s.flags
	binary.BigEndian.PutUint16(tcp[14:], s.window)
	tcp = append(append(tcp, s.options...), s.data...)
	pseudo := []byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}
	from, to := s.from.Addr().AsSlice(), s.to.Addr().AsSlice()
	binary.BigEndian.PutUint16(tcp[16:], ^tcpSum(from, to, pseudo, tcp))
	if s.from.Addr().Is4() {
		ip := []byte{0x45, 0, byte((20 + len(tcp)) >> 8), byte(20 + len(tcp)), 0, 1, 0x40, 0, 64, 6, 0, 0}
		ip = append(append(ip, from...), to...)
		binary.BigEndian.PutUint16(ip[10:], ^tcpSum(ip))
		return append(append(append(f, 8, 0), ip...), tcp...)
	}
	ip := append(append([]byte{0x60, 0, 0, 0, byte(len(tcp) >> 8), byte(len(tcp)), 6, 64}, from...), to...)
	return append(append(append(f, 0x86, 0xdd), ip...), tcp...)
}

// parseSeg parses a frame; false if it is not a TCP segment, or has a wrong
// checksum.
func parseSeg(f []byte, vlans []uint16) (s seg, ok bool) {
	if len(f) < 14 {
		return s, false
	}
	s.vlans = vlans
	at := 12
	for len(f) > at+4 && (f[at] == 0x81 && f[at+1] == 0 || f[at] == 0x88 && f[at+1] == 0xa8) {
		s.vlans = append(s.vlans, binary.BigEndian.Uint16(f[at+2:])&0xfff)
		at += 4
	}
	kind, ip := binary.BigEndian.Uint16(f[at:]), f[at+2:]
	var src, dst netip.Addr
	var tcp []byte
	switch {
	case kind == 0x0800 && len(ip) >= 40 && ip[0] == 0x45 && ip[9] == 6:
		src, _ = netip.AddrFromSlice(ip[12:16])
		dst, _ = netip.AddrFromSlice(ip[16:20])
		tcp = ip[20:min(len(ip), int(binary.BigEndian.Uint16(ip[2:])))]
	case kind == 0x86dd && len(ip) >= 60 && ip[6] == 6:
		src, _ = netip.AddrFromSlice(ip[8:24])
		dst, _ = netip.AddrFromSlice(ip[24:40])
		tcp = ip[40:min(len(ip), 40+int(binary.BigEndian.Uint16(ip[4:])))]
	default:
		return s, false
	}
	pseudo := []byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}
	header := int(tcp[12]>>4) * 4
	if tcpSum(src.AsSlice(), dst.AsSlice(), pseudo, tcp) != 0xffff || header > len(tcp) {
		return s, false
	}
	s.from = netip.AddrPortFrom(src, binary.BigEndian.Uint16(tcp))
	s.to = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(tcp[2:]))
	s.seq, s.ack = binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	s.flags, s.window = tcp[13], binary.BigEndian.Uint16(tcp[14:])
	s.options, s.data = tcp[20:header], tcp[header:]
	return s, true
}

// wire is the end of a cable, without a TCP stack behind it.
type wire struct {
	t        *testing.T
	fd       int
	port     *rig.Port
	src, dst [6]byte
}

// wire opens the end of a cable; peer is the port that its frames go to.
func (w *world) wire(n *rig.Namespace, port, peer *rig.Port) *wire {
	w.t.Helper()
	x := &wire{t: w.t, port: port, src: [6]byte(port.MAC), dst: [6]byte(peer.MAC)}
	err := n.Do(func() (err error) {
		x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(x.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.Bind(x.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: port.Index}))
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(x.fd) })
	return x
}

func (x *wire) send(s seg) {
	x.t.Helper()
	if err := harness.SendFrame(x.fd, s.frame(x.dst, x.src), x.port.Index); err != nil {
		x.t.Fatal(err)
	}
}

// next is the next matching segment; false if none arrives in time.
func (x *wire) next(within time.Duration, wanted func(seg) bool) (seg, bool) {
	x.t.Helper()
	for deadline := time.Now().Add(within); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return seg{}, false
		}
		tv := unix.NsecToTimeval(max(left, time.Microsecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(x.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			x.t.Fatal(err)
		}
		b, oob := make([]byte, 2048), make([]byte, 128)
		n, oobn, _, from, err := unix.Recvmsg(x.fd, b, oob, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			x.t.Fatal(err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if s, ok := parseSeg(b[:n], auxVLAN(oob[:oobn])); ok && wanted(s) {
			return s, true
		}
	}
}

// want is next, and fails the test if there is none.
func (x *wire) want(what string, wanted func(seg) bool) seg {
	x.t.Helper()
	s, ok := x.next(patience, wanted)
	if !ok {
		x.t.Fatalf("timed out waiting for: %s", what)
	}
	return s
}

// auxVLAN is the outermost tag, which the kernel removes from frames: struct
// tpacket_auxdata, tp_status at 0, tp_vlan_tci at 16.
func auxVLAN(oob []byte) []uint16 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 20 &&
			binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			return []uint16{binary.NativeEndian.Uint16(m.Data[16:]) & 0xfff}
		}
	}
	return nil
}

// synAckTo matches a SYN-ACK to an address.
func synAckTo(who netip.AddrPort) func(seg) bool {
	return func(s seg) bool { return s.to == who && s.flags&(syn|ack|rst) == syn|ack }
}

// nobody is an address of the clients' network that no machine has, so that no
// kernel reacts to the answers.
func nobody(ipv6 bool, port uint16) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.MustParseAddr("fd7d:7467:2::77"), port)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("198.18.2.77"), port)
}
