// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Whole Ethernet frames of either family, correct or wrong as a test requires: what
// an attacker or an unusual device would send. Only through ports of the lab.

// Frame is an Ethernet frame with a TCP segment.
type Frame struct {
	To, From   net.HardwareAddr
	Src, Dst   netip.AddrPort
	Flags      TCPFlags
	Seq, Ack   uint32
	Window     uint16
	Options    []byte // TCP's, a multiple of four
	IPOptions  []byte // IPv4's, a multiple of four
	Extension  byte   // IPv6: the number of the first extension header, if there are Extensions
	Extensions []byte // the whole chain; the last header names TCP
	Payload    []byte

	IPSum, TCPSum func(right uint16) uint16 // functions of the correct value; nil: the correct value
}

// OptionsExtension is a destination options header of that many bytes before TCP, filled with
// experimental options that receivers skip (RFC 4727). Not with padding: Linux drops
// packets with more than 7 bytes of it in a row.
func OptionsExtension(size int) []byte {
	b := []byte{unix.IPPROTO_TCP, byte(size/8 - 1)}
	for left := size - 2; left > 0; {
		n := min(left, 257)
		if left-n == 1 {
			n--
		}
		b = append(b, 0x1e, byte(n-2))
		b = append(b, make([]byte, n-2)...)
		left -= n
	}
	return b
}

// Bytes returns the frame as sent.
func (f *Frame) Bytes() []byte {
	src, dst := f.Src.Addr().AsSlice(), f.Dst.Addr().AsSlice()
	t := make([]byte, 20, 20+len(f.Options)+len(f.Payload))
	binary.BigEndian.PutUint16(t, f.Src.Port())
	binary.BigEndian.PutUint16(t[2:], f.Dst.Port())
	binary.BigEndian.PutUint32(t[4:], f.Seq)
	binary.BigEndian.PutUint32(t[8:], f.Ack)
	t[12], t[13] = byte(5+len(f.Options)/4)<<4, byte(f.Flags)
	binary.BigEndian.PutUint16(t[14:], f.Window)
	t = append(append(t, f.Options...), f.Payload...)
	pseudo := sum16(src, sum16(dst, uint32(unix.IPPROTO_TCP+len(t))))
	binary.BigEndian.PutUint16(t[16:], field(f.TCPSum, ^fold16(sum16(t, pseudo))))
	frame := append(append([]byte{}, f.To...), f.From...)
	if f.Src.Addr().Is4() {
		ip := make([]byte, 20, 60)
		ip[0], ip[6], ip[8], ip[9] = 0x45+byte(len(f.IPOptions)/4), 0x40, 64, unix.IPPROTO_TCP
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(f.IPOptions)+len(t)))
		copy(ip[12:], src)
		copy(ip[16:], dst)
		ip = append(ip, f.IPOptions...)
		binary.BigEndian.PutUint16(ip[10:], field(f.IPSum, ^fold16(sum16(ip, 0))))
		return append(append(append(frame, 8, 0), ip...), t...)
	}
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_TCP, 64
	if len(f.Extensions) > 0 {
		ip[6] = f.Extension
	}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(f.Extensions)+len(t)))
	copy(ip[8:], src)
	copy(ip[24:], dst)
	return append(append(append(append(frame, 0x86, 0xdd), ip...), f.Extensions...), t...)
}

// PseudoSum is what a sender leaves in the TCP checksum field for its device to complete.
func (f *Frame) PseudoSum() uint16 {
	return fold16(sum16(f.Src.Addr().AsSlice(), sum16(f.Dst.Addr().AsSlice(),
		uint32(unix.IPPROTO_TCP+20+len(f.Options)+len(f.Payload)))))
}

func field(make func(uint16) uint16, right uint16) uint16 {
	if make == nil {
		return right
	}
	return make(right)
}

func sum16(b []byte, sum uint32) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	return sum
}

func fold16(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}

// rawSocket opens a packet socket bound to a port.
func rawSocket(p *rig.Port, proto uint16) (fd int, err error) {
	be := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, proto))
	if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(be)); err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: be, Ifindex: p.Index}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// SendFrames sends frames out of a port, unchanged.
func SendFrames(p *rig.Port, frames ...[]byte) error {
	return p.NS.Do(func() error {
		if err := p.Verify(); err != nil {
			return err
		}
		fd, err := rawSocket(p, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, f := range frames {
			if err := sendFrame(fd, f); err != nil {
				return fmt.Errorf("send %d bytes: %w", len(f), err)
			}
		}
		return nil
	})
}

// fullFor is how long the peer of a cable may wait for a processor.
const fullFor = 10 * time.Second

// sendFrame sends one. A cable whose peer's queue is full refuses it (ENOBUFS): then the peer is given the processor.
func sendFrame(fd int, frame []byte) error {
	for began := time.Now(); ; {
		_, err := unix.Write(fd, frame)
		if !errors.Is(err, unix.ENOBUFS) || time.Since(began) > fullFor {
			return err
		}
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// FrameTap captures the frames that enter and leave at a port.
type FrameTap struct{ fd int }

// NewFrameTap opens a tap.
func NewFrameTap(p *rig.Port) (t *FrameTap, err error) {
	t = &FrameTap{fd: -1}
	err = p.NS.Do(func() (err error) {
		if t.fd, err = rawSocket(p, unix.ETH_P_ALL); err != nil {
			return err
		}
		return unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	})
	return t, err
}

func (t *FrameTap) Close() { unix.Close(t.fd) }

// Frames returns the frames captured up to the first for which last is true, or until the deadline.
func (t *FrameTap) Frames(until time.Time, last func(frame []byte) bool) (list [][]byte, seen bool) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(t.fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			left := time.Until(until)
			if left <= 0 {
				return list, false
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		default:
			f := append([]byte(nil), buf[:n]...)
			if last(f) {
				return list, true
			}
			list = append(list, f)
		}
	}
}
