// SPDX-License-Identifier: Apache-2.0

package verdicts

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// tap is a packet socket at the client's end of the link: it sends frames as they are
// and reads what comes back.
type tap struct {
	fd   int
	port *rig.Port
	buf  []byte
}

// answer is a segment that came back for a frame.
type answer struct {
	mac    [6]byte // where it was sent to
	flags  uint8
	window uint16
	seq    uint32
	ack    uint32
	tsval  uint32 // 0: no timestamps
}

// gateWindow is what gates are told to advertise; no kernel does.
const gateWindow = 4321

const (
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

func (a answer) isSYNACK() bool { return a.flags&(flagSYN|flagACK|flagRST) == flagSYN|flagACK }

// ofGate: gates advertise what world_test.go tells them, or no window at all.
func (a answer) ofGate() bool { return a.window == gateWindow || a.window == 0 }

func (a answer) String() string {
	kind := fmt.Sprintf("flags %#x", a.flags)
	switch {
	case a.isSYNACK():
		kind = "SYN-ACK"
	case a.flags&flagRST != 0:
		kind = "RST"
	}
	return fmt.Sprintf("%s to %x, window %d", kind, a.mac, a.window)
}

// newTap opens one. Its buffer holds the answers to a whole batch.
func newTap(port *rig.Port) (*tap, error) {
	t := &tap{port: port, buf: make([]byte, 65536)}
	err := port.NS.Do(func() (err error) {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return err
		}
		for _, o := range [][3]int{{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64 << 20},
			{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1}, {unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1}} {
			if err := unix.SetsockoptInt(t.fd, o[0], o[1], o[2]); err != nil {
				return err
			}
		}
		return unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: port.Index})
	})
	return t, err
}

func (t *tap) close() error { return unix.Close(t.fd) }

// send puts one frame on the wire. Frames that a packet socket cannot send (shorter than a
// link header, longer than the MTU) are reported as not sent.
func (t *tap) send(frame []byte) (sent bool, err error) {
	for {
		_, err = unix.Write(t.fd, frame)
		switch err {
		case nil:
			return true, nil
		case unix.EINTR, unix.ENOBUFS, unix.EAGAIN:
		case unix.EMSGSIZE, unix.EINVAL:
			return false, nil
		default:
			return false, err
		}
	}
}

// receive reads answers until those to both fences have come; by then the machine has
// worked through everything that was sent before them.
func (t *tap) receive(patience time.Duration) (replies, error) {
	answers := replies{}
	fences := map[uint16]bool{fencePort: true, farFencePort: true}
	deadline := time.Now().Add(patience)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}, 100)
		if err != nil && err != unix.EINTR {
			return nil, err
		}
		for n > 0 {
			size, _, err := unix.Recvfrom(t.fd, t.buf, unix.MSG_DONTWAIT)
			if err == unix.EAGAIN || err == unix.EINTR {
				break
			}
			if err != nil {
				return nil, err
			}
			port, a, ok := parse(t.buf[:size])
			if !ok {
				continue
			}
			if fences[port] {
				if delete(fences, port); len(fences) == 0 {
					return answers, nil
				}
				continue
			}
			answers[port] = append(answers[port], a)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no answer to plain SYNs from ports %v within %v: the machine under test does not serve", fences, patience)
		}
	}
}

// parse reads a TCP segment that came back, and the client's port.
func parse(b []byte) (port uint16, a answer, ok bool) {
	if len(b) < 14 {
		return 0, a, false
	}
	copy(a.mac[:], b)
	at := 14
	for at+4 <= len(b) && (b[at-2] == 0x81 && b[at-1] == 0 || b[at-2] == 0x88 && b[at-1] == 0xa8 || b[at-2] == 0x91 && b[at-1] == 0) {
		at += 4
	}
	if at+40 > len(b) {
		return 0, a, false
	}
	ip := b[at:]
	switch {
	case ip[0]>>4 == 4 && ip[9] == unix.IPPROTO_TCP:
		ip = ip[int(ip[0]&15)*4:]
	case ip[0]>>4 == 6 && ip[6] == unix.IPPROTO_TCP:
		ip = ip[40:]
	default:
		return 0, a, false
	}
	if len(ip) < 20 || int(ip[12]>>4)*4 > len(ip) || ip[12]>>4 < 5 {
		return 0, a, false
	}
	a.seq, a.ack = binary.BigEndian.Uint32(ip[4:]), binary.BigEndian.Uint32(ip[8:])
	a.flags, a.window = ip[13], binary.BigEndian.Uint16(ip[14:])
	a.tsval = timestamp(ip[20 : int(ip[12]>>4)*4])
	return binary.BigEndian.Uint16(ip[2:]), a, true
}

// timestamp is the TSval of an option list, or 0.
func timestamp(o []byte) uint32 {
	for len(o) > 1 && o[0] != 0 {
		if o[0] == 1 {
			o = o[1:]
			continue
		}
		if o[0] == 8 && len(o) >= 10 {
			return binary.BigEndian.Uint32(o[2:])
		}
		if o[1] < 2 || int(o[1]) > len(o) {
			return 0
		}
		o = o[o[1]:]
	}
	return 0
}

// replies are answers by the client's port.
type replies map[uint16][]answer

// to is the answer to a SYN with this number. A gate that remembers half-open connections
// retransmits, so that answers to former batches come in between; only those acknowledge
// another SYN, but for auth-full, which never acknowledges what it was sent (`loose`).
func (r replies) to(port uint16, seq uint32, loose bool) (a answer, is bool) {
	for _, a = range r[port] {
		if a.ack == seq+1 || loose || !a.isSYNACK() {
			return a, true
		}
	}
	return answer{}, false
}

// listener is a plain TCP listener whose connections are taken and thrown away.
type listener struct{ fds []int }

func newListener(n *rig.Namespace, port int) (*listener, error) {
	l := &listener{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		err := n.Do(func() error {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			l.fds = append(l.fds, fd)
			var any unix.Sockaddr = &unix.SockaddrInet4{Port: port}
			if family == unix.AF_INET6 {
				if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
					return err
				}
				any = &unix.SockaddrInet6{Port: port}
			}
			if err := unix.Bind(fd, any); err != nil {
				return err
			}
			return unix.Listen(fd, 4096)
		})
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// take accepts everything that waits and resets it; the clients' ports.
func (l *listener) take() (map[uint16]netip.Addr, error) {
	ports := map[uint16]netip.Addr{}
	for _, fd := range l.fds {
		for {
			c, from, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			if err == unix.EAGAIN {
				break
			}
			if err == unix.EINTR || err == unix.ECONNABORTED {
				continue
			}
			if err != nil {
				return nil, err
			}
			switch a := from.(type) {
			case *unix.SockaddrInet4:
				ports[uint16(a.Port)] = netip.AddrFrom4(a.Addr)
			case *unix.SockaddrInet6:
				ports[uint16(a.Port)] = netip.AddrFrom16(a.Addr)
			}
			_ = unix.SetsockoptLinger(c, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			unix.Close(c)
		}
	}
	return ports, nil
}

func (l *listener) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
}
