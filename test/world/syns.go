// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// SYNs sends SYNs with arbitrary options through a packet socket, from addresses
// that no machine has, and receives the answers. Only inside namespaces of the test.
type SYNs struct {
	t        *testing.T
	fd       int
	index    int
	dst, src [6]byte
}

// NewSYNs opens the end of a cable; peer is the port that the frames are addressed to.
func NewSYNs(t *testing.T, port, peer *rig.Port) *SYNs {
	t.Helper()
	s := &SYNs{t: t, index: port.Index, dst: [6]byte(peer.MAC), src: [6]byte(port.MAC)}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	err := port.NS.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20),
			unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1), // a flood must not fill the buffer for answers
			unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: port.Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

// Send sends one SYN, which nothing merges or pads; options are a multiple of four bytes.
func (s *SYNs) Send(from, to netip.AddrPort, options []byte) {
	s.t.Helper()
	f := SYNFrame(s.dst, s.src, from, to, options)
	if err := SendFrame(s.fd, f, s.index); err != nil {
		s.t.Fatal(err)
	}
}

// SendACK sends an ACK whose acknowledgement number is a guess, as one sends who never saw the SYN-ACK.
func (s *SYNs) SendACK(from, to netip.AddrPort) {
	s.t.Helper()
	f := segmentFrame(s.dst, s.src, from, to, 0x10, uint32(from.Port())*2654435761, nil)
	if err := SendFrame(s.fd, f, s.index); err != nil {
		s.t.Fatal(err)
	}
}

// sendPatience is for the peer of a cable to be given a processor; it ends a test whose peer is never.
const sendPatience = 10 * time.Second

// SendFrame sends a frame by a packet socket. A cable whose peer's queue is full drops the frame and says so
// (ENOBUFS): the peer waits for a processor, so the processor is given up, and the frame sent again.
func SendFrame(fd int, frame []byte, index int) error {
	for began := time.Now(); ; {
		err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index})
		full := errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN)
		if !full && !errors.Is(err, unix.EINTR) || time.Since(began) > sendPatience {
			return err
		}
		if full {
			_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// SYNFrame is a SYN with right checksums. Its sequence number is derived from its ports.
func SYNFrame(dst, src [6]byte, from, to netip.AddrPort, options []byte) []byte {
	return segmentFrame(dst, src, from, to, 0x02, 0, options)
}

// segmentFrame is a segment without data.
func segmentFrame(dst, src [6]byte, from, to netip.AddrPort, flags byte, ack uint32, options []byte) []byte {
	tcp := make([]byte, 20+len(options))
	binary.BigEndian.PutUint16(tcp, from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], uint32(from.Port())<<16|uint32(to.Port()))
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13] = byte(len(tcp)/4<<4), flags
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	copy(tcp[20:], options)
	a, b := from.Addr().AsSlice(), to.Addr().AsSlice()
	binary.BigEndian.PutUint16(tcp[16:], ^onesSum(a, b, []byte{0, 6, 0, byte(len(tcp))}, tcp))
	f := append(append([]byte{}, dst[:]...), src[:]...)
	if from.Addr().Is4() {
		ip := append(append([]byte{0x45, 0, 0, byte(20 + len(tcp)), 0, 1, 0x40, 0, 64, 6, 0, 0}, a...), b...)
		binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip))
		return append(append(append(f, 8, 0), ip...), tcp...)
	}
	ip := append(append([]byte{0x60, 0, 0, 0, 0, byte(len(tcp)), 6, 64}, a...), b...)
	return append(append(append(f, 0x86, 0xdd), ip...), tcp...)
}

// onesSum is the Internet checksum's sum (RFC 1071) of parts of even length.
func onesSum(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		for i := 0; i+1 < len(p); i += 2 {
			sum += uint32(p[i])<<8 | uint32(p[i+1])
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// Answered counts the SYN-ACKs received, by destination port, until none has arrived
// for `quiet`. A SYN-ACK with a wrong TCP checksum does not count.
func (s *SYNs) Answered(quiet time.Duration) map[uint16]int {
	s.t.Helper()
	tv := unix.NsecToTimeval(quiet.Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		s.t.Fatal(err)
	}
	got := map[uint16]int{}
	for b := make([]byte, 2048); ; {
		n, from, err := unix.Recvfrom(s.fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return got
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if port, ok := synAckTo(b[:n]); ok {
			got[port]++
		}
	}
}

// synAckTo returns the destination port of a SYN-ACK.
func synAckTo(f []byte) (port uint16, ok bool) {
	var addrs, tcp []byte
	switch {
	case len(f) >= 54 && f[12] == 8 && f[13] == 0 && f[14] == 0x45 && f[23] == 6:
		addrs, tcp = f[26:34], f[34:min(len(f), 14+int(binary.BigEndian.Uint16(f[16:])))]
	case len(f) >= 74 && f[12] == 0x86 && f[13] == 0xdd && f[20] == 6:
		addrs, tcp = f[22:54], f[54:min(len(f), 54+int(binary.BigEndian.Uint16(f[18:])))]
	default:
		return 0, false
	}
	if len(tcp) < 20 || len(tcp)%4 != 0 || tcp[13]&0x16 != 0x12 ||
		onesSum(addrs, []byte{0, 6, 0, byte(len(tcp))}, tcp) != 0xffff {
		return 0, false
	}
	return binary.BigEndian.Uint16(tcp[2:]), true
}

// Reached is how many SYNs a namespace's TCP has processed: requests in SYN_RECV
// for a port, and, counted since the namespace was made, SYNs that left no state: those answered with a cookie of
// the kernel's, or dropped for lack of room.
type Reached struct {
	SynRecv, Cookies, NoRoom int
	From                     map[uint16]bool // the ports of those in SYN_RECV
}

// Sum is their sum.
func (r Reached) Sum() int { return r.SynRecv + r.Cookies + r.NoRoom }

// ReachedStack counts them.
func ReachedStack(t *testing.T, n *rig.Namespace, port uint16) (r Reached) {
	t.Helper()
	r.From = map[uint16]bool{}
	here := fmt.Sprintf(":%04X", port)
	err := n.Do(func() error {
		for _, name := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			if errors.Is(err, os.ErrNotExist) {
				continue // a kernel without IPv6
			}
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				words := strings.Fields(line)
				if len(words) < 4 || words[3] != "03" || !strings.HasSuffix(words[1], here) {
					continue
				}
				r.SynRecv++
				_, hex, _ := strings.Cut(words[2], ":")
				if from, err := strconv.ParseUint(hex, 16, 16); err == nil {
					r.From[uint16(from)] = true
				}
			}
		}
		f, err := os.Open("/proc/thread-self/net/netstat")
		if err != nil {
			return err
		}
		defer f.Close()
		stats, err := netstat(f)
		r.Cookies, r.NoRoom = stats["TcpExtSyncookiesSent"], stats["TcpExtTCPReqQFullDrop"]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// netstat parses pairs of lines, names above values.
func netstat(r io.Reader) (map[string]int, error) {
	stats := map[string]int{}
	for s := bufio.NewScanner(r); s.Scan(); {
		names := strings.Fields(s.Text())
		if !s.Scan() {
			return stats, s.Err()
		}
		for i, v := range strings.Fields(s.Text()) {
			if n, err := strconv.Atoi(v); err == nil && i < len(names) {
				stats[strings.TrimSuffix(names[0], ":")+names[i]] = n
			}
		}
	}
	return stats, nil
}

// Retransmitted is how many segments TCP has retransmitted in these namespaces, SYNs included, since they
// were made: something was lost, or there was no answer for at least 200 ms.
func Retransmitted(t *testing.T, all ...*rig.Namespace) (n int) {
	t.Helper()
	for _, ns := range all {
		err := ns.Do(func() error {
			f, err := os.Open("/proc/thread-self/net/snmp")
			if err != nil {
				return err
			}
			defer f.Close()
			stats, err := netstat(f)
			n += stats["TcpRetransSegs"]
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// NoRetransmits calls do up to five times, and expects that once, TCP in these namespaces retransmits
// nothing meanwhile. A machine that is busy for 200 ms makes TCP retransmit what was not lost; what a fault
// loses is retransmitted each time.
func NoRetransmits(t *testing.T, what string, do func(), all ...*rig.Namespace) {
	t.Helper()
	sentTwice := 0
	for range 5 {
		before := Retransmitted(t, all...)
		do()
		if sentTwice = Retransmitted(t, all...) - before; sentTwice == 0 || t.Failed() {
			return
		}
	}
	t.Errorf("%s: segments were retransmitted in each of five attempts, %d in the last", what, sentTwice)
}
