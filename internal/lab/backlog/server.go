// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// serverChild is the hidden subcommand of tidegate-lab that answers in place of a kernel.
const serverChild = "_backlog"

// Stats is what the process counted, and what its list costs.
type Stats struct {
	SYNs      uint64 `json:"syns"`
	Connected uint64 `json:"connected"` // ACKs that found their entry
	Unknown   uint64 `json:"unknown"`   // ACKs whose entry had been dropped: answered by a RST
	Lost      uint64 `json:"lost"`      // frames that found the process's ring full

	Dropped  uint64 `json:"dropped"` // entries, at random
	Walked   uint64 `json:"walked"`  // entries passed for that
	Searches uint64 `json:"searches"`
	Searched uint64 `json:"searched"`

	// DropNs is one random drop from a full list, timed after the flood in the memory that the flood left behind.
	DropNs float64 `json:"drop_ns"`
	CPUNs  uint64  `json:"cpu_ns"` // of the process
}

// server has the list and the connections that left it.
type server struct {
	ring *ring
	out  int
	list *list
	rng  *rand.Rand
	open map[tuple]open
	stat Stats
	buf  [192]byte
}

// open is a connection after its handshake.
type open struct {
	next    uint32 // our next sequence number
	request bool   // was answered
}

const response = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"

// RunServerChild is the body of `tidegate-lab _backlog ENTRIES`: it answers until SIGTERM, then prints its Stats.
func RunServerChild(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("want one argument, the number of entries")
	}
	limit, err := strconv.Atoi(args[0])
	if err != nil || limit < 1 || limit > 1<<20 {
		return fmt.Errorf("entries %q: want 1 to %d", args[0], 1<<20)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &server{list: newList(limit, 1), rng: rand.New(rand.NewPCG(2, 4)), open: map[tuple]open{}}
	if s.ring, s.out, err = openRing(); err != nil {
		return err
	}
	var stop atomic.Bool
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() { <-asked; stop.Store(true) }()
	if _, err := io.WriteString(stdout, "ready\n"); err != nil {
		return err
	}
	service := rig.ServiceAddr(false)
	for !stop.Load() {
		frame, ifindex := s.ring.frame()
		if frame == nil {
			if err := s.ring.wait(); err != nil {
				return err
			}
			continue
		}
		err := s.take(frame, ifindex, service)
		s.ring.release()
		if err != nil {
			return err
		}
	}
	return s.report(stdout)
}

func (s *server) report(stdout io.Writer) (err error) {
	if s.stat.Lost, err = s.ring.lost(); err != nil {
		return err
	}
	l := s.list
	s.stat.Dropped, s.stat.Walked, s.stat.Searches, s.stat.Searched = l.Dropped, l.Walked, l.Searches, l.Searched
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return err
	}
	s.stat.CPUNs = uint64(u.Utime.Nano() + u.Stime.Nano())
	for l.n < l.limit {
		l.add(tuple{}, 0, 0)
	}
	const times = 20_000
	begin := time.Now()
	for range times {
		l.add(tuple{}, 0, 0)
	}
	s.stat.DropNs = float64(time.Since(begin).Nanoseconds()) / times
	return json.NewEncoder(stdout).Encode(s.stat)
}

// Flags of TCP.
const (
	fin = 1
	syn = 2
	rst = 4
	psh = 8
	ack = 16
)

// take answers one frame.
func (s *server) take(frame []byte, ifindex int, service netip.AddrPort) error {
	if len(frame) < 14+40 || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || frame[14] != 0x45 || frame[23] != unix.IPPROTO_TCP {
		return nil
	}
	ip, tcp := frame[14:34], frame[34:]
	to := service.Addr().As4()
	if [4]byte(ip[16:20]) != to || binary.BigEndian.Uint16(tcp[2:]) != service.Port() {
		return nil
	}
	head, total := int(tcp[12]>>4)*4, int(binary.BigEndian.Uint16(ip[2:]))-20
	if head < 20 || head > total || total > len(tcp) {
		return nil
	}
	flags, length := tcp[13], uint32(total-head)
	who := tuple{binary.BigEndian.Uint32(ip[12:]), binary.BigEndian.Uint16(tcp)}
	seq, acked := binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	reply := func(flags byte, number, acknowledge uint32, data string) error {
		return s.send(frame, ifindex, flags, number, acknowledge, data)
	}
	switch {
	case flags&rst != 0:
		delete(s.open, who)
		return nil
	case flags&(syn|ack) == syn:
		s.stat.SYNs++
		iss := s.rng.Uint32()
		s.list.add(who, iss, seq)
		return reply(syn|ack, iss, seq+1, "")
	case flags&ack == 0:
		return nil
	}
	c, there := s.open[who]
	if !there {
		e := s.list.find(who)
		if e == nil || acked != e.iss+1 || seq != e.irs+1 {
			s.stat.Unknown++
			return reply(rst, acked, 0, "")
		}
		s.list.remove(e)
		s.stat.Connected++
		c = open{next: acked}
		s.open[who] = c
	}
	if length > 0 && !c.request {
		err := reply(psh|fin|ack, c.next, seq+length, response)
		c.next, c.request = c.next+uint32(len(response))+1, true
		s.open[who] = c
		return err
	}
	if flags&fin != 0 {
		delete(s.open, who)
		return reply(ack, c.next, seq+length+1, "")
	}
	return nil
}

// send answers a frame, with addresses and ports turned round.
func (s *server) send(in []byte, ifindex int, flags byte, seq, acknowledge uint32, data string) error {
	options := 0
	if flags&syn != 0 {
		options = 4
	}
	b := s.buf[:14+40+options+len(data)]
	copy(b, in[6:12])
	copy(b[6:], in[:6])
	copy(b[12:], []byte{8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, unix.IPPROTO_TCP, 0, 0})
	ip, tcp := b[14:34], b[34:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-14))
	copy(ip[12:], in[30:34])
	copy(ip[16:], in[26:30])
	binary.BigEndian.PutUint16(ip[10:], ^sum(ip, 0))
	copy(tcp, in[36:38])
	copy(tcp[2:], in[34:36])
	binary.BigEndian.PutUint32(tcp[4:], seq)
	binary.BigEndian.PutUint32(tcp[8:], acknowledge)
	tcp[12], tcp[13] = byte(5+options/4)<<4, flags
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	copy(tcp[16:], []byte{0, 0, 0, 0})
	if options > 0 {
		copy(tcp[20:], []byte{2, 4, 5, 0xb4})
	}
	copy(tcp[20+options:], data)
	binary.BigEndian.PutUint16(tcp[16:], ^sum(tcp, uint32(sum(ip[12:20], uint32(unix.IPPROTO_TCP+len(tcp))))))
	err := unix.Sendto(s.out, b, 0, &unix.SockaddrLinklayer{Ifindex: ifindex})
	if errors.Is(err, unix.ENOBUFS) {
		return nil // lost, as on a wire
	}
	return err
}

// sum is the folded one's-complement sum of RFC 1071.
func sum(b []byte, start uint32) uint16 {
	n := start
	for i := 0; i+1 < len(b); i += 2 {
		n += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		n += uint32(b[len(b)-1]) << 8
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}
