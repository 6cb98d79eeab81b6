// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	"tidegate/internal/upstream"
)

// Traffic of the network: attackers with raw sockets, a reflector, a server and its
// clients. All of it stays inside namespaces that this process made.

const (
	portWeb      = 80
	portFlooded  = 7000
	portReflect  = 53
	floodPPS     = 2500
	floodPayload = 1000 // bytes: 20 Mbit/s with floodPPS, more than twice the bottleneck
	queryPayload = 40
	clientRate   = 20 // requests/s of each client
	clientWait   = time.Second
)

// flooder sends UDP packets with a source of its choice until it is stopped.
type flooder struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	sent   atomic.Uint64
}

// flood sends from a namespace. src may be forged.
func (t *Network) flood(ns, src, dst string, srcPort, dstPort uint16, payload int) (*flooder, error) {
	n := t.ns[ns]
	if n == nil || !rig.PathExists("/run/netns/"+n.Name) {
		return nil, fmt.Errorf("%s: %w", ns, rig.ErrForeignInterface)
	}
	packet, family := udpPacket(t.at(src), t.at(dst), srcPort, dstPort, payload), unix.AF_INET
	var to unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(t.at(dst).AsSlice()[:4])}
	if t.ipv6 {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: t.at(dst).As16()}
	}
	fd := -1
	err := n.Do(func() (err error) {
		if !n.Current() { // never send from outside the lab
			return rig.ErrForeignInterface
		}
		fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("raw socket in %s: %w", ns, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flooder{cancel: cancel}
	f.done.Go(func() {
		defer unix.Close(fd)
		begin, tick := time.Now(), time.NewTicker(5*time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			due := uint64(time.Since(begin).Seconds() * floodPPS)
			for f.sent.Load() < due {
				_ = unix.Sendto(fd, packet, unix.MSG_DONTWAIT, to) // a full queue may lose it
				f.sent.Add(1)
			}
			<-tick.C
		}
	})
	return f, nil
}

func (f *flooder) stop() uint64 {
	f.cancel()
	f.done.Wait()
	return f.sent.Load()
}

// udpPacket is a whole packet. For IPv4 the kernel fills in checksum and length, and a
// UDP checksum of zero means none.
func udpPacket(src, dst netip.Addr, srcPort, dstPort uint16, payload int) []byte {
	if src.Is6() {
		return udpPacket6(src, dst, srcPort, dstPort, payload)
	}
	b := make([]byte, 28+payload)
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	s, d := src.As4(), dst.As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	binary.BigEndian.PutUint16(b[20:], srcPort)
	binary.BigEndian.PutUint16(b[22:], dstPort)
	binary.BigEndian.PutUint16(b[24:], uint16(8+payload))
	return b
}

// udpPacket6: the payload is zero except for its first two bytes, which make the
// checksum 0xffff, so that it need not be computed.
func udpPacket6(src, dst netip.Addr, srcPort, dstPort uint16, payload int) []byte {
	b := make([]byte, 48+payload)
	b[0], b[6], b[7] = 0x60, unix.IPPROTO_UDP, 64
	s, d := src.As16(), dst.As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	binary.BigEndian.PutUint16(b[4:], uint16(8+payload))
	binary.BigEndian.PutUint16(b[40:], srcPort)
	binary.BigEndian.PutUint16(b[42:], dstPort)
	binary.BigEndian.PutUint16(b[44:], uint16(8+payload))
	sum := uint32(unix.IPPROTO_UDP) + uint32(8+payload)
	for i := 8; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[48:], uint16(0xffff-sum)) // the sum is 0xffff now, so its complement is 0
	binary.BigEndian.PutUint16(b[46:], 0xffff)             // which is sent as 0xffff (RFC 8200, 8.1)
	return b
}

// reflect answers every query to a namespace's port with floodPayload bytes.
func (t *Network) reflect(ns, addr string) (io.Closer, error) {
	var c *net.UDPConn
	err := t.ns[ns].Do(func() (err error) {
		c, err = net.ListenUDP(t.udp(), net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.at(addr), portReflect)))
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		in, out := make([]byte, 2000), make([]byte, floodPayload)
		for {
			n, from, err := c.ReadFromUDPAddrPort(in)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			copy(out, in[:max(n, 0)])
			_, _ = c.WriteToUDPAddrPort(out, from)
		}
	}()
	return c, nil
}

// web is the server's service: one line in, some bytes out.
func (t *Network) web() (io.Closer, error) {
	var l net.Listener
	var config net.ListenConfig
	config.SetMultipathTCP(false) // the kernel cannot adopt for MPTCP listeners, Go's default
	err := t.ns["s"].Do(func() (err error) {
		l, err = config.Listen(context.Background(), t.tcp(), t.port(addrServer, portWeb))
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				b := make([]byte, 2000)
				if _, err := c.Read(b); err == nil {
					_, _ = c.Write(b)
				}
			}()
		}
	}()
	return l, nil
}

// asker makes requests from a namespace and records the results.
type asker struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	tries  []try
}

type try struct {
	at time.Time
	ok bool
}

// begin repeats a request until the client is stopped.
func (t *Network) begin(ns string, request func() bool) *asker {
	ctx, cancel := context.WithCancel(context.Background())
	c := &asker{cancel: cancel}
	c.done.Go(func() {
		tick := time.NewTicker(time.Second / clientRate)
		defer tick.Stop()
		for ctx.Err() == nil {
			c.done.Go(func() {
				at := time.Now()
				ok := request()
				c.mu.Lock()
				c.tries = append(c.tries, try{at, ok})
				c.mu.Unlock()
			})
			<-tick.C
		}
	})
	return c
}

// webClient sends requests to the server's service over TCP.
func (t *Network) webClient(ns string) *asker {
	return t.begin(ns, func() bool {
		deadline := time.Now().Add(clientWait)
		var c net.Conn
		err := t.ns[ns].Do(func() (err error) {
			d := net.Dialer{Deadline: deadline}
			c, err = d.Dial(t.tcp(), t.port(addrServer, portWeb))
			return err
		})
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(deadline)
		if _, err := c.Write([]byte("GET\n")); err != nil {
			return false
		}
		b, err := io.ReadAll(c)
		return err == nil && len(b) == 2000
	})
}

// queryClient sends queries from the server to a reflector, as a resolver would.
func (t *Network) queryClient(reflector string) *asker {
	return t.begin("s", func() bool {
		var c net.Conn
		err := t.ns["s"].Do(func() (err error) {
			c, err = net.Dial(t.udp(), t.port(reflector, portReflect))
			return err
		})
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(clientWait))
		if _, err := c.Write(make([]byte, queryPayload)); err != nil {
			return false
		}
		n, err := c.Read(make([]byte, 2000))
		return err == nil && n == floodPayload
	})
}

// stop ends the client.
func (c *asker) stop() {
	c.cancel()
	c.done.Wait()
}

// success is the share of requests begun in a time span that were answered; -1
// if there were none.
func (c *asker) success(from, to time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := 0, 0
	for _, t := range c.tries {
		if !t.at.Before(from) && t.at.Before(to) {
			n++
			if t.ok {
				ok++
			}
		}
	}
	if n == 0 {
		return -1
	}
	return float64(ok) / float64(n)
}

// sighting is what the detector has seen of a source.
type sighting struct {
	count, trueSource uint64
	first, last       time.Time
	reflected         bool
	reported          bool
}

// detector stands for an intrusion detection system at the server: it counts what
// arrives at the flooded port, by source, and reports sources that send too much.
type detector struct {
	udp    *upstream.UDP
	mu     sync.Mutex
	seen   map[netip.Addr]*sighting
	tell   func(src netip.Addr, trueSource, reflected bool)
	closed sync.WaitGroup
}

const (
	detectAfter   = 200 // packets of one source
	labCodepoint  = 47
	quietForTrust = 700 * time.Millisecond // without a packet: it counts as filtered
)

func (t *Network) detect(tell func(netip.Addr, bool, bool)) (*detector, error) {
	d := &detector{seen: map[netip.Addr]*sighting{}, tell: tell}
	err := t.ns["s"].Do(func() (err error) {
		d.udp, err = upstream.ListenUDP(netip.AddrPortFrom(t.at(addrServer), portFlooded), labCodepoint)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.closed.Go(d.read)
	return d, nil
}

func (d *detector) read() {
	in := upstream.NewInbox()
	for {
		n, err := d.udp.Read(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		now := time.Now()
		for i := range n {
			from, marked := in.From(i), in.TClass(i)>>2 == labCodepoint
			d.mu.Lock()
			s := d.seen[from.Addr()]
			if s == nil {
				s = &sighting{first: now}
				d.seen[from.Addr()] = s
			}
			s.count++
			s.last, s.reflected = now, from.Port() == portReflect
			if marked {
				s.trueSource++
			}
			tell := s.count >= detectAfter && !s.reported
			s.reported = s.reported || tell
			reflected, allTrue := s.reflected, s.trueSource == s.count
			d.mu.Unlock()
			if tell {
				go d.tell(from.Addr(), allTrue, reflected)
			}
		}
	}
}

// of returns what was seen of a source.
func (d *detector) of(src netip.Addr) sighting {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.seen[src]; s != nil {
		return *s
	}
	return sighting{}
}

// awaitQuiet waits until nothing more arrives: the lower queue before the server
// holds a second's worth of a flood that has ended.
func (d *detector) awaitQuiet(ctx context.Context) error {
	for {
		last := time.Time{}
		d.mu.Lock()
		for _, s := range d.seen {
			if s.last.After(last) {
				last = s.last
			}
		}
		d.mu.Unlock()
		wait := quietForTrust - time.Since(last)
		if wait <= 0 {
			return nil
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (d *detector) forget() {
	d.mu.Lock()
	d.seen = map[netip.Addr]*sighting{}
	d.mu.Unlock()
}

func (d *detector) close() {
	d.udp.Close()
	d.closed.Wait()
}
