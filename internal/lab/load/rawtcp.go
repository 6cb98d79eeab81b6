// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Single IPv4 TCP segments, made and examined one by one: what an attacker or
// another client implementation would send. Only inside namespaces of the lab.

// Segment is an IPv4 TCP segment; Header is the whole TCP header as received.
type Segment struct {
	Src, Dst netip.AddrPort
	Flags    TCPFlags
	Seq, Ack uint32
	Window   uint16
	Options  []byte // a multiple of four
	Payload  []byte
	Header   []byte
}

// ip4 writes the segment with its checksum; the kernel fills in the IP header's.
func (s *Segment) ip4() []byte {
	hdr := 20 + len(s.Options)
	p := make([]byte, 20+hdr+len(s.Payload))
	src, dst := s.Src.Addr().As4(), s.Dst.Addr().As4()
	p[0], p[6], p[8], p[9] = 0x45, 0x40, 64, unix.IPPROTO_TCP
	copy(p[12:], src[:])
	copy(p[16:], dst[:])
	t := p[20:]
	binary.BigEndian.PutUint16(t, s.Src.Port())
	binary.BigEndian.PutUint16(t[2:], s.Dst.Port())
	binary.BigEndian.PutUint32(t[4:], s.Seq)
	binary.BigEndian.PutUint32(t[8:], s.Ack)
	t[12], t[13] = byte(hdr/4)<<4, byte(s.Flags)
	binary.BigEndian.PutUint16(t[14:], s.Window)
	copy(t[20:], s.Options)
	copy(t[hdr:], s.Payload)
	sum := uint32(unix.IPPROTO_TCP + len(t))
	for _, part := range [][]byte{p[12:20], t} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
		if len(part)%2 == 1 {
			sum += uint32(part[len(part)-1]) << 8
		}
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(t[16:], ^uint16(sum>>16+sum))
	return p
}

// parseIP4 parses a segment that starts with its IP header; false if it is not TCP over IPv4.
func parseIP4(p []byte) (s Segment, ok bool) {
	if len(p) < 40 || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return s, false
	}
	if total := int(binary.BigEndian.Uint16(p[2:])); total < len(p) {
		p = p[:total]
	}
	ihl := int(p[0]&15) * 4
	if len(p) < ihl+20 {
		return s, false
	}
	t := p[ihl:]
	hdr := int(t[12]>>4) * 4
	if hdr < 20 || len(t) < hdr {
		return s, false
	}
	src, _ := netip.AddrFromSlice(p[12:16])
	dst, _ := netip.AddrFromSlice(p[16:20])
	return Segment{
		Src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(t)), Dst: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(t[2:])),
		Seq: binary.BigEndian.Uint32(t[4:]), Ack: binary.BigEndian.Uint32(t[8:]), Flags: TCPFlags(t[13]),
		Window: binary.BigEndian.Uint16(t[14:]), Options: t[20:hdr], Payload: t[hdr:], Header: t[:hdr],
	}, true
}

// SendSegment sends a segment from a namespace, with any source address.
func SendSegment(n *rig.Namespace, s Segment) error {
	return n.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, s.ip4(), 0, &unix.SockaddrInet4{Addr: s.Dst.Addr().As4()})
	})
}

// Tap captures the IPv4 TCP segments that enter and leave at a port.
type Tap struct{ fd int }

// NewTap opens a tap.
func NewTap(p *rig.Port) (*Tap, error) {
	t := &Tap{fd: -1}
	proto := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	err := p.NS.Do(func() (err error) {
		if t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(proto)); err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: p.Index}))
	})
	if err != nil && t.fd >= 0 {
		unix.Close(t.fd)
	}
	return t, err
}

func (t *Tap) Close() { unix.Close(t.fd) }

// Next waits for a segment for which want is true; false at the deadline.
func (t *Tap) Next(until time.Time, want func(Segment) bool) (Segment, bool) {
	buf := make([]byte, 1<<16)
	for {
		left := time.Until(until)
		if left <= 0 {
			return Segment{}, false
		}
		poll := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) || n == 0 {
			continue
		}
		n, _, err := unix.Recvfrom(t.fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			continue
		}
		if s, ok := parseIP4(append([]byte(nil), buf[:n]...)); ok && want(s) {
			return s, true
		}
	}
}

// All returns the segments captured so far.
func (t *Tap) All() (list []Segment) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(t.fd, buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return list
		}
		if s, ok := parseIP4(append([]byte(nil), buf[:n]...)); ok {
			list = append(list, s)
		}
	}
}
