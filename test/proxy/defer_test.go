// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// defer_accept: the client's first segment completes the server's handshake.

// deferring is a strategy with that option.
func deferring(strategy string) string { return strategy + "\n    defer_accept: yes" }

// onXDP skips a test of what plane dpdk, which sends both packets at once, does not do.
func onXDP(t *testing.T) {
	t.Helper()
	if testPlane == rig.PlaneDPDK {
		t.Skip("plane dpdk sends both packets, whatever defer_accept says")
	}
}

// deferred plays both ends of a connection until the server has answered. Its client has a window then, and its server nothing.
func deferred(t *testing.T, client, server *wire, local uint16, a netip.AddrPort, isn uint32, vlans ...uint16) (synack, third, opened seg) {
	t.Helper()
	synack, third = client.greet(local, a, vlans...)
	client.send(third)
	opened = server.want("the SYN", from(third.from, a, syn))
	if opened.seq != third.seq-1 { // an unknown server is asked
		server.send(opened.answer(isn-100, syn|ack, poor))
		server.want("the reset of what was asked", from(third.from, a, rst))
		opened = server.want("the connection's own SYN", own(third))
	}
	server.send(opened.answer(isn, syn|ack, poor))
	opensWindow(t, client, synack, third)
	if g, came := server.next(200*time.Millisecond, from(third.from, a, ack)); came {
		t.Errorf("before the client has said anything, the server got %+v", g)
	}
	return synack, third, opened
}

// opensWindow awaits the window update of that connection.
func opensWindow(t *testing.T, client *wire, synack, third seg) {
	t.Helper()
	g := client.want("the window", from(third.to, third.from, ack))
	if g.seq != synack.seq+1 || g.ack != third.seq || g.window != 5000 || len(g.data) != 0 || len(g.vlans) != len(third.vlans) {
		t.Errorf("the client was told the window by %+v, after %+v", g, synack)
	}
}

// The window goes to the client, and nothing to the server until the client has said something: data, a FIN, a RST, or a probe of the
// window. While it has said nothing, a repeated SYN-ACK is answered with both packets; afterwards with an ACK alone.
func TestDeferAccept(t *testing.T) {
	onXDP(t)
	for name, vlans := range map[string][]uint16{"router": nil, "bridge": nil, "bridge with VLAN": {42}} {
		for _, strategy := range []string{"cookie", "cache"} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				w, client, server := rawWorld(t, name != "router")
				w.start(w.config(deferring(strategy)))
				a, isn := rawServer(81), uint32(7000)
				said := func(local uint16, flags byte, data string) (opened seg) {
					t.Helper()
					_, third, opened := deferred(t, client, server, local, a, isn, vlans...)
					third.flags, third.data = flags, []byte(data)
					client.send(third)
					g := server.want("what the client says first", func(s seg) bool { return s.from == third.from && s.flags&syn == 0 })
					if g.seq != 1001 || g.ack != isn+1 || g.flags != flags || string(g.data) != data || len(g.vlans) != len(vlans) {
						t.Errorf("the server got %+v, want flags %x and %q", g, flags, data)
					}
					return opened
				}
				opened := said(6001, ack|psh, "GET")
				server.send(opened.answer(isn, syn|ack, poor))
				if g := server.want("the ACK of the repeated SYN-ACK", from(opened.from, a, ack)); g.seq != 1001 || g.ack != isn+1 || len(g.data) != 0 {
					t.Errorf("the server got %+v", g)
				}
				if g, came := client.next(200*time.Millisecond, from(a, opened.from, ack)); came {
					t.Errorf("a client that has said something got %+v", g)
				}
				said(6002, ack|fin, "")
				said(6003, ack|rst, "")
				w.wantCounters(map[string]uint64{"flow_ready": 3, "flow_reack": 1, "flow_closed": 1, "server_asked": 1})

				// Its window is lost, and the client probes it; its number is one less than the next.
				synack, third, opened := deferred(t, client, server, 6004, a, isn, vlans...)
				probe := third
				probe.seq--
				client.send(probe)
				if g := server.want("the probe", from(third.from, a, ack)); g.seq != 1000 || g.ack != isn+1 {
					t.Errorf("the server got %+v", g)
				}
				server.send(opened.answer(isn+1, ack, nil))
				opensWindow(t, client, synack, third)

				// A silent client, and a server that waits for its handshake.
				synack, third, opened = deferred(t, client, server, 6005, a, isn, vlans...)
				for range 2 {
					server.send(opened.answer(isn, syn|ack, poor))
					if g := server.want("the ACK", from(third.from, a, ack)); g.seq != 1001 || g.ack != isn+1 || len(g.data) != 0 || len(g.vlans) != len(vlans) {
						t.Errorf("the server's repeated SYN-ACK was answered by %+v", g)
					}
					opensWindow(t, client, synack, third)
				}
				hello := opened.answer(isn+1, ack|psh, nil)
				hello.data = []byte("220")
				server.send(hello)
				if g := client.want("the server's word", func(s seg) bool { return string(s.data) == "220" }); g.seq != synack.seq+1 || g.ack != 1001 {
					t.Errorf("the client got %+v", g)
				}
				w.wantCounters(map[string]uint64{"flow_ready": 5, "flow_reack": 3, "flow_forged": 0})
			})
		}
	}
}

// An early client under notify is told that its data are lost, by TC; others are not.
func TestDeferAcceptNotify(t *testing.T) {
	onXDP(t)
	w, client, server := rawWorld(t, true)
	w.start(w.config(deferring("cookie\n    first_data: notify")))
	a := rawServer(81)
	deferred(t, client, server, 6001, a, 7000)
	synack, third := client.greet(6002, a)
	client.send(third)
	early := third
	early.data = []byte("early")
	client.send(early)
	w.await("the early data are dropped", func() bool { return w.counters()["flow_early"]+w.counters()["flow_retransmit"] > 0 })
	opened := server.want("the SYN", own(third))
	server.send(opened.answer(8000, syn|ack, poor))
	if g := server.want("the ACK", from(third.from, a, ack)); g.ack != 8001 {
		t.Errorf("the server got %+v", g)
	}
	for range 4 {
		opensWindow(t, client, synack, third)
	}
	w.wantCounters(map[string]uint64{"flow_ready": 2, "flow_notified": 1})
}

// Real kernels: the server's first segment of each connection is the client's data.
func TestDeferAcceptConnections(t *testing.T) {
	const one, many, atOnce = 10, 300, 20
	each(t, deferring("cookie"), echo, func(t *testing.T, w *world, ipv6 bool) {
		seen := w.wire(w.Server, w.ServerPort, w.InnerPort)
		before := w.counters()["flow_ready"]
		for range one {
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
		}
		numbers, first := map[netip.AddrPort]uint32{}, map[netip.AddrPort]seg{}
		for _, s := range seen.sofar() {
			if s.to != w.ServiceAddr(ipv6, port) || s.flags&rst != 0 {
				continue
			}
			if s.flags&syn != 0 {
				numbers[s.from] = s.seq
			} else if _, there := first[s.from]; !there && s.seq != numbers[s.from] { // a probe of the window, on a slow machine
				first[s.from] = s
			}
		}
		if testPlane != rig.PlaneDPDK && len(first) != one {
			t.Errorf("the server got something of %d connections, want %d", len(first), one)
		}
		for who, s := range first {
			if testPlane != rig.PlaneDPDK && len(s.data) == 0 {
				t.Errorf("the first that the server got of %v is %+v", who, s)
			}
		}
		errs := make(chan error, many)
		var group sync.WaitGroup
		var next atomic.Int32
		for range atOnce {
			group.Go(func() {
				for next.Add(1) <= many {
					if err := w.ping(ipv6); err != nil {
						errs <- err
					}
				}
			})
		}
		group.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
		if n := w.counters()["flow_ready"] - before; n != one+many {
			t.Errorf("%d connections became ready, want %d", n, one+many)
		}
	})
}

// HTTPS by nginx and curl.
func TestDeferAcceptHTTPS(t *testing.T) {
	curl := program(t, "curl", "curl")
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			w.startNginx(make([]byte, 1<<20))
			w.start(w.realConfig(deferring("cookie")))
			for _, ipv6 := range families() {
				for range 5 {
					out, err := w.clientRun(curl, "-sSk", "--fail", "-o", "/dev/null", "-w", "%{size_download}", "https://"+w.host(ipv6)+"/file")
					if err != nil || out != fmt.Sprint(1<<20) {
						t.Errorf("%s: %q, %v", familyName(ipv6), out, err)
					}
				}
			}
			w.wantCounters(map[string]uint64{"flow_ready": 5 * uint64(len(families())), "cookie_invalid": 0, "flow_refused": 0})
		})
	}
}

// A client that waits for its server's word gets it, when the server has repeated its SYN-ACK.
func TestDeferAcceptServerSpeaksFirst(t *testing.T) {
	each(t, deferring("cookie"), func(c *net.TCPConn) {
		fmt.Fprintln(c, "220 ready")
		echo(c)
	}, func(t *testing.T, w *world, ipv6 bool) {
		before, begin := w.counters()["flow_reack"], time.Now()
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "220 ready\n" {
			t.Fatalf("the server's word: %q, %v", line, err)
		}
		again := w.counters()["flow_reack"] - before
		t.Logf("after %v, and %d repeated SYN-ACKs", time.Since(begin), again)
		if testPlane != rig.PlaneDPDK && again == 0 {
			t.Error("the server's handshake was complete before it repeated its SYN-ACK")
		}
		if err := harness.Word(c); err != nil {
			t.Error(err)
		}
	})
}

// The window is lost on its way: the client's probe brings it another.
func TestDeferAcceptWindowLost(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, true)
			w.serve(echo)
			w.start(w.config(deferring("cookie")))
			w.nft(w.Client, dropFirst("input", fmt.Sprintf("tcp sport %d %s", port, bareACK)))
			begin := time.Now()
			if err := w.ping(ipv6); err != nil {
				t.Error(err)
			}
			t.Logf("after %v, %d repeated SYN-ACKs", time.Since(begin), w.counters()["flow_reack"])
			cmd := exec.Command("nft", "list", "table", "inet", "loss")
			var out harness.Output
			cmd.Stdout = &out
			if err := w.Client.Do(cmd.Run); err != nil || !strings.Contains(out.String(), "packets 1 ") {
				t.Errorf("no window was lost: %v, %s", err, out.String())
			}
			w.wantCounters(map[string]uint64{"flow_ready": 1})
		})
	}
}

// A client that ends its connection before it has said anything: with a FIN, its server sees an empty connection; with a RST, none.
func TestDeferAcceptEnds(t *testing.T) {
	onXDP(t)
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			var accepted atomic.Int32
			w.serve(func(c *net.TCPConn) {
				accepted.Add(1)
				echo(c)
			})
			w.start(w.config(deferring("cookie")))
			for i, ipv6 := range families() {
				ends := func(n uint64, end func(c *net.TCPConn) error) {
					t.Helper()
					c, err := w.dial(ipv6)
					if err != nil {
						t.Fatal(err)
					}
					w.await("the server's answer", func() bool { return w.counters()["flow_ready"] == n })
					if err := errors.Join(end(c), c.Close()); err != nil {
						t.Error(err)
					}
					w.await("the end", func() bool { return w.counters()["flow_closed"] == n })
				}
				ends(uint64(2*i+1), func(c *net.TCPConn) error { return c.SetLinger(0) })
				ends(uint64(2*i+2), func(c *net.TCPConn) error {
					if err := c.CloseWrite(); err != nil {
						return err
					}
					got, err := io.ReadAll(c)
					if len(got) > 0 {
						t.Errorf("got %q", got)
					}
					return err
				})
				if n := accepted.Load(); n != int32(i+1) {
					t.Errorf("%s: the server has accepted %d connections, want %d", familyName(ipv6), n, i+1)
				}
			}
		})
	}
}
