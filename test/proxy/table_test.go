// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// holdConn is a connection that is used now and then.
func (w *world) holdConn(ipv6 bool) *net.TCPConn {
	w.t.Helper()
	c, err := w.dial(ipv6)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	use(w.t, c)
	return c
}

func use(t *testing.T, c *net.TCPConn) {
	t.Helper()
	b := []byte("still there?")
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "still there?" {
		t.Fatalf("got %q, %v", b, err)
	}
}

// active identifies the table of a kind, such as "tg_flows4", that receives new entries: another one after each swap.
func (w *world) active(kind string) (id uint32) {
	w.t.Helper()
	outer, err := ebpf.LoadPinnedMap(filepath.Join(w.instance.PinDir(), kind), nil)
	if err == nil {
		defer outer.Close()
		err = outer.Lookup(uint32(0), &id)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// Connections in use outlive any number of swaps: each use is a second chance. So
// do whitelisted sources.
func TestSwap(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie", "swap_period: 1500ms", "idle_time: 1500ms"))
	var conns []*net.TCPConn
	for _, ipv6 := range families() {
		conns = append(conns, w.holdConn(ipv6))
	}
	for range 3 {
		before4, before6 := w.active("tg_flows4"), w.active("tg_flows6")
		w.await("a swap", func() bool { // in use all the time: what is not used between two swaps is forgotten
			for _, c := range conns {
				use(t, c)
			}
			return w.active("tg_flows4") != before4 && w.active("tg_flows6") != before6
		})
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_opened": uint64(len(conns))})
}

// A restart takes over translated connections; so does a start after a kill.
func TestRestartKeepsConnections(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	b := w.start(w.config("cookie"))
	c := w.holdConn(false)
	b.Kill()
	use(t, c) // only the packet path runs
	w.start(w.config("cookie"))
	use(t, c)
	w.wantCounters(map[string]uint64{"flow_opened": 0, "cookie_invalid": 0})
}

// A strategy is changed while connections are translated.
func TestStrategyIsSwitchedLive(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	b := w.start(w.config("cookie"))
	c := w.holdConn(false)
	w.writeConfig(w.config("auth-cookie"))
	b.Reread("msg=reloaded")
	use(t, c)
	if err := w.ping(false); !wasReset(err) {
		t.Errorf("a new connection got %v, want auth-cookie's reset", err)
	}
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
	use(t, c)
}

// sendTCP sends a bare IPv4 segment from the client's machine, with that last byte
// of the source address.
func (w *world) sendTCP(source, flags byte, seq, ack uint32) {
	w.t.Helper()
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	p[6] = 0x40
	copy(p[12:], []byte{198, 18, 2, source})
	dst := w.ServiceAddr(false, port).Addr().As4()
	copy(p[16:], dst[:])
	binary.BigEndian.PutUint16(p[20:], 33333)
	binary.BigEndian.PutUint16(p[22:], port)
	binary.BigEndian.PutUint32(p[24:], seq)
	binary.BigEndian.PutUint32(p[28:], ack)
	p[32], p[33] = 5<<4, flags
	binary.BigEndian.PutUint16(p[36:], ^tcpSum(p[12:20], []byte{0, unix.IPPROTO_TCP, 0, 20}, p[20:]))
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

// Table I, false positives: which sources one forged packet whitelists.
func TestForgedPacketsWhitelist(t *testing.T) {
	const rst, ack = 0x04, 0x10
	for _, c := range []struct {
		strategy string
		flags    byte
		want     uint64
	}{
		{"auth-wrong", rst, 1}, {"auth-wrong", ack, 0},
		{"auth-full", ack, 1}, {"auth-full", rst, 0},
		{"auth-cookie", ack, 0}, {"auth-cookie", rst, 0},
		{"auth-ttl", ack, 0}, {"auth-ttl", rst, 0},
	} {
		name := map[byte]string{rst: "rst", ack: "ack"}[c.flags]
		t.Run(c.strategy+"-"+name, func(t *testing.T) {
			w := newWorld(t, false)
			w.start(w.config(c.strategy))
			w.sendTCP(2, c.flags, 1000, 2000)
			// A SYN behind it shows that it has passed. If the source must not be
			// whitelisted, no machine has its address: an existing machine answers the
			// challenge with a RST, which auth-wrong takes for a client's.
			w.sendTCP(3-byte(c.want), 0x02, 1000, 0)
			w.await("the SYN is seen", func() bool { return w.counters()["syn"] > 0 })
			w.wantCounters(map[string]uint64{"white_added": c.want, "forward_white": c.want})
		})
	}
}

// A source that holds as many places as are free gets no more of its own; its further connections
// wait for one, and are served as long as there is room for waiting.
func TestFullTable(t *testing.T) {
	const conns = 600 // of 1,024 places, 896 are for newcomers: one source has 448
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie", "max_flows: 1024"))
	var open []*net.TCPConn
	for range conns {
		open = append(open, w.holdConn(false))
	}
	if w.counters()["flow_waits"] == 0 {
		t.Error("nothing was counted as flow_waits")
	}
	for _, c := range open {
		use(t, c)
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_full": 0})
}

// One source that completes thousands of handshakes and then sends nothing does not lock
// others out: it may hold as many places as are free. The server behind its connections is silent.
func TestOneSourceFillsNoTable(t *testing.T) {
	w, client, server := rawWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie", "max_flows: 1024"))
	for local := range uint16(1500) {
		_, third := client.greet(10000+local, rawServer(81))
		client.send(third)
		if local%100 == 0 {
			server.next(time.Microsecond, func(seg) bool { return false }) // drain what it was sent
		}
	}
	w.await("the attacker's share is used up", func() bool { return w.counters()["flow_share"] > 100 })
	late := 0
	for range 20 {
		begun := time.Now()
		if err := w.ping(false); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > time.Second {
			late++
		}
	}
	if late > 10 { // a few are a busy machine's
		t.Errorf("%d of 20 newcomers were served after more than a second", late)
	}
	// In each tick of 4.3 s a source may bring half of what waits.
	if got := w.counters(); got["flow_opened"] > 1400 || got["flow_full"] != 0 {
		t.Errorf("%d connections were begun, %d found no room", got["flow_opened"], got["flow_full"])
	}
}
