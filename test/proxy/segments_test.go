// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/dpdk"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// Connections segment by segment: lost, duplicated and early segments.

const flagPSH, flagFIN = load.TCPFlags(0x08), load.TCPFlags(0x01)

// unanswered is an address behind the client for which no kernel answers.
var unanswered = netip.MustParseAddr("198.18.31.201")

// raw is a client without a kernel.
type raw struct {
	w        *world
	tap      *load.Tap
	src, dst netip.AddrPort
	seq, ack uint32
}

func (w *world) raw(local uint16) *raw {
	w.t.Helper()
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(tap.Close)
	return &raw{w: w, tap: tap, src: netip.AddrPortFrom(unanswered, local), dst: w.ServiceAddr(false, port), seq: uint32(local) << 16}
}

func (r *raw) send(flags load.TCPFlags, payload string) {
	r.w.t.Helper()
	s := load.Segment{Src: r.src, Dst: r.dst, Flags: flags, Seq: r.seq, Ack: r.ack, Window: 65535, Payload: []byte(payload)}
	if flags&load.FlagSYN != 0 {
		s.Options = []byte{2, 4, 5, 0xb4} // MSS 1460
	}
	if flags&load.FlagACK == 0 {
		s.Ack = 0
	}
	if err := load.SendSegment(r.w.Client, s); err != nil {
		r.w.t.Fatal(err)
	}
}

// expect waits for a segment to this client.
func (r *raw) expect(what string, want func(load.Segment) bool) load.Segment {
	r.w.t.Helper()
	s, ok := r.tap.Next(time.Now().Add(patience/2), func(s load.Segment) bool { return s.Dst == r.src && want(s) })
	if !ok {
		r.w.t.Fatalf("timed out waiting for: %s", what)
	}
	return s
}

// handshake sends a SYN and stores the number of the SYN-ACK.
func (r *raw) handshake() {
	r.w.t.Helper()
	r.send(load.FlagSYN, "")
	s := r.expect("SYN-ACK", func(s load.Segment) bool { return s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK })
	if s.Window != 0 || s.Ack != r.seq+1 {
		r.w.t.Errorf("SYN-ACK with window %d, ack %d; want window 0, ack %d", s.Window, s.Ack, r.seq+1)
	}
	r.seq, r.ack = r.seq+1, s.Seq+1
}

// nft loads rules into a namespace.
func (w *world) nft(n *rig.Namespace, rules string) { w.t.Helper(); harness.NFT(w.t, n, rules) }

// dropFirst drops the first packet that matches, and no other.
func dropFirst(hook, match string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, match)
	return fmt.Sprintf("add table inet loss\nadd chain inet loss %[1]s%[3]s { type filter hook %[1]s priority 0; }\nadd rule inet loss %[1]s%[3]s %[2]s numgen inc mod 1000000 0 counter drop\n", hook, match, name)
}

const bareACK = "tcp flags & (fin|syn|rst|psh|ack) == ack"

// Only the ACK of the client's handshake is lost. A client with data to send
// probes the window, which it was told is closed, and that probe opens the connection.
func TestLastACKLost(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config("cookie"))
			w.nft(w.Client, dropFirst("output", fmt.Sprintf("tcp dport %d %s", port, bareACK)))
			if err := w.ping(ipv6); err != nil {
				t.Error(err)
			}
			w.wantCounters(map[string]uint64{"cookie_invalid": 0, "cookie_valid": 1, "flow_ready": 1})
		})
	}
}

// The SYN to the server is lost, and then the ACK to it, while the client retransmits.
func TestBothSidesRetransmit(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config("cookie"))
			w.nft(w.Server, dropFirst("input", fmt.Sprintf("tcp dport %d tcp flags & (syn|ack) == syn", port))+
				dropFirst("input", fmt.Sprintf("tcp dport %d %s", port, bareACK)))
			if err := w.ping(ipv6); err != nil {
				t.Error(err)
			}
			c := w.counters()
			if c["flow_retransmit"] == 0 || c["flow_opened"] != 1 || c["flow_ready"] != 1 {
				t.Errorf("the SYN was sent again %d times, %d connections opened, %d ready", c["flow_retransmit"], c["flow_opened"], c["flow_ready"])
			}
		})
	}
}

// Duplicates of everything, at once: the server sees one connection and each byte once.
func TestCopies(t *testing.T) {
	w := newWorld(t, false)
	got := make(chan string, 4)
	w.serve(func(c *net.TCPConn) {
		defer c.Close()
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	w.start(w.config("cookie"))
	r := w.raw(41000)
	r.handshake()
	for range 3 {
		r.send(load.FlagACK, "")
	}
	r.expect("the server's window", func(s load.Segment) bool { return s.Window > 0 })
	for range 3 {
		r.send(load.FlagACK|flagPSH, "once")
	}
	r.seq += 4
	for range 2 {
		r.send(load.FlagACK|flagFIN, "")
	}
	if s := <-got; s != "once" {
		t.Errorf("the server read %q", s)
	}
	w.wantCounters(map[string]uint64{"flow_opened": 1, "flow_ready": 1})
}

// A client that ignores the zero window sends data in its third segment:
// it opens the connection, and the data must be retransmitted.
func TestDataInThirdSegment(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie"))
	r := w.raw(41001)
	r.handshake()
	r.send(load.FlagACK|flagPSH, "early")
	window := r.expect("the server's window", func(s load.Segment) bool { return s.Window > 0 })
	if window.Ack != r.seq {
		t.Errorf("ack %d of data that was not taken; want %d", window.Ack, r.seq)
	}
	r.send(load.FlagACK|flagPSH, "early")
	if s := r.expect("the echo", func(s load.Segment) bool { return len(s.Payload) > 0 }); string(s.Payload) != "early" || s.Seq != r.ack {
		t.Errorf("got %q at %d, want it at %d", s.Payload, s.Seq, r.ack)
	}
}

// A client resets before its server has answered: the server gets the RST, and
// the flow's place is free again.
func TestResetInSetUp(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.nft(w.Server, "add table inet loss\nadd chain inet loss in { type filter hook input priority 0; }\nadd rule inet loss in tcp flags & (syn|ack) == syn drop\n")
	w.start(w.config("cookie"))
	server, err := load.NewTap(w.ServerPort)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := w.raw(41002)
	r.handshake()
	r.send(load.FlagACK, "")
	toServer := func(flags load.TCPFlags) load.Segment {
		const ecn = 0xc0 // ECE and CWR: an unknown server is offered everything
		s, ok := server.Next(time.Now().Add(patience/2), func(s load.Segment) bool { return s.Src == r.src && s.Flags&^ecn == flags })
		if !ok {
			t.Fatalf("no segment with flags %#x reached the server", flags)
		}
		return s
	}
	syn := toServer(load.FlagSYN) // the box probes the server with it, so its number is not the client's
	r.send(load.FlagRST, "")
	if rst := toServer(load.FlagRST); rst.Seq != syn.Seq+1 {
		t.Errorf("RST with number %d, want %d", rst.Seq, syn.Seq+1)
	}
	w.wantCounters(map[string]uint64{"flow_opened": 1, "flow_closed": 1, "flow_ready": 0})
	if n, err := w.flows(); err != nil || n != 0 {
		t.Errorf("%d flows are left, %v", n, err)
	}
}

// flows is how many IPv4 connections the box has in its tables.
func (w *world) flows() (int, error) {
	if testPlane == rig.PlaneDPDK {
		st, err := dpdk.ReadState("tidegate-" + w.Instance)
		return st.Flows, err
	}
	u, err := plane.OpenUsage("/sys/fs/bpf", w.Instance, "tg_flows4", "tg_waiting4")
	return u.Entries, err
}

// A flood to a dead server costs the same as any flood: nothing is sent to the
// server, nothing is stored, and clients get no wrong answer.
func TestFloodToDeadServer(t *testing.T) {
	w := newWorld(t, false)
	w.nft(w.Server, "add table inet dead\nadd chain inet dead in { type filter hook input priority 0; policy drop; }\n")
	w.start(w.config("cookie"))
	before, err := w.ServerPort.RxPackets()
	if err != nil {
		t.Fatal(err)
	}
	f, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.ServiceAddr(false, port), CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Burst(50_000); err != nil {
		t.Fatal(err)
	}
	// A SYN is counted before its answer: a reading may fall between the two, while the queue is still being emptied.
	var c map[string]uint64
	harness.Await(t, "each SYN that arrived is answered", patience, 10*time.Millisecond, func() bool {
		c = w.counters()
		return c["cookie_sent"] > 0 && c["cookie_sent"] == c["syn"]
	})
	after, err := w.ServerPort.RxPackets()
	if err != nil {
		t.Fatal(err)
	}
	// Neighbours' probes and multicast reports come at any time; of the flood there would be thousands.
	if after-before > 50 || c["flow_opened"] != 0 {
		t.Errorf("%d frames went to the server, counters %v", after-before, c)
	}
	// The client gets the SYN-ACK, as from a server whose application hangs; then nothing.
	conn, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) && !isTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// The server closes its side first; the client keeps sending.
func TestServerHalfCloses(t *testing.T) {
	const size = 1 << 20
	got := make(chan int, 8)
	each(t, "cookie", func(c *net.TCPConn) {
		defer c.Close()
		_, _ = c.Write([]byte("bye"))
		_ = c.CloseWrite()
		n, _ := io.Copy(io.Discard, c)
		got <- int(n)
	}, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if b, err := io.ReadAll(c); err != nil || string(b) != "bye" {
			t.Fatalf("got %q, %v", b, err)
		}
		if _, err := c.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != size {
			t.Errorf("the server read %d bytes, want %d", n, size)
		}
	})
}

// Fragments that split the TCP header, or would overwrite one already judged, do not
// reach the server.
func TestOverlappingFragments(t *testing.T) {
	w := newWorld(t, false)
	w.start(w.config("cookie"))
	server, err := load.NewTap(w.ServerPort)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	before, err := w.ServerPort.RxPackets()
	if err != nil {
		t.Fatal(err)
	}
	tcp := make([]byte, 40)
	binary.BigEndian.PutUint16(tcp, 41003)
	binary.BigEndian.PutUint16(tcp[2:], port)
	tcp[12], tcp[13] = 5<<4, byte(load.FlagACK)
	syn := bytes.Clone(tcp)
	syn[13] = byte(load.FlagSYN)
	const more = 0x2000
	for i, f := range []struct {
		what   string
		offset uint16 // in bytes
		more   bool
		data   []byte
	}{
		{"a header that is cut", 0, true, tcp[:8]},
		{"a SYN in a first fragment", 0, true, syn[:24]},
		{"a fragment over the header's second half", 8, false, tcp[8:32]},
		{"a fragment over the flags", 8, true, syn[8:16]},
	} {
		field := f.offset / 8
		if f.more {
			field |= more
		}
		w.sendIP4(uint16(i), field, f.data)
	}
	// A SYN behind them shows that they have passed.
	r := w.raw(41004)
	r.handshake()
	after, err := w.ServerPort.RxPackets()
	if err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("%d frames got to the server: %+v", after-before, server.All())
	}
}

// sendIP4 sends an IPv4 packet of the unanswered address with that identification and fragment field.
func (w *world) sendIP4(id, fragment uint16, payload []byte) {
	w.t.Helper()
	p := make([]byte, 20+len(payload))
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[4:], 0x7467+id)
	binary.BigEndian.PutUint16(p[6:], fragment)
	src, dst := unanswered.As4(), w.ServiceAddr(false, port).Addr().As4()
	copy(p[12:], src[:])
	copy(p[16:], dst[:])
	copy(p[20:], payload)
	err := w.Client.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, p, 0, &unix.SockaddrInet4{Addr: dst})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
