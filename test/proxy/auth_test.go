// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"io"
	"net"
	"net/netip"
	"testing"
)

// Table II of Scholz et al.: the first connection is interrupted, the
// source whitelisted, and from then on nothing is translated or answered.
func TestAuth(t *testing.T) {
	for _, strategy := range []string{"auth-full", "auth-cookie", "auth-ttl"} {
		t.Run(strategy, func(t *testing.T) {
			each(t, strategy, echo, func(t *testing.T, w *world, ipv6 bool) {
				before := w.counters()
				if err := w.ping(ipv6); !wasReset(err) {
					t.Fatalf("first connection: got %v, want a reset", err)
				}
				for range 3 {
					if err := w.ping(ipv6); err != nil {
						t.Fatal(err)
					}
				}
				after := w.counters()
				answered := "challenge_sent"
				if strategy == "auth-cookie" {
					answered = "cookie_sent"
				}
				for name, want := range map[string]uint64{"syn": 4, answered: 1, "white_added": 1,
					"white_reset": 1, "forward_white": 3, "flow_opened": 0} {
					if got := after[name] - before[name]; got != want {
						t.Errorf("%s is %d, want %d", name, got, want)
					}
				}
			})
		})
	}
}

// A client in SYN-SENT answers a wrong acknowledgment number with a RST and retransmits its
// SYN: the application sees nothing of it.
func TestAuthWrong(t *testing.T) {
	each(t, "auth-wrong", echo, func(t *testing.T, w *world, ipv6 bool) {
		before := w.counters()
		for range 2 {
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
		}
		after := w.counters()
		for name, want := range map[string]uint64{"syn": 3, "challenge_sent": 1, "white_added": 1,
			"white_reset": 0, "forward_white": 2} {
			if got := after[name] - before[name]; got != want {
				t.Errorf("%s is %d, want %d", name, got, want)
			}
		}
	})
}

// A connection that existed before the proxy survives under every strategy.
func TestExistingConnection(t *testing.T) {
	for _, strategy := range []string{"cookie", "auth-full", "auth-cookie", "auth-wrong", "auth-ttl"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			var conns []*net.TCPConn
			for _, ipv6 := range families() {
				c, err := w.dial(ipv6)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				conns = append(conns, c)
			}
			w.start(w.config(strategy))
			for _, c := range conns {
				if _, err := c.Write([]byte("still there?")); err != nil {
					t.Fatal(err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(c); err != nil || string(got) != "still there?" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
}

// More sources than the whitelist can hold, all from one IPv6 site, lock no client out, neither of
// IPv4 nor of IPv6.
func TestFullWhitelist(t *testing.T) {
	if len(families()) < 2 {
		t.Skip("this kernel has no IPv6")
	}
	w, client, _ := rawWorld(t, false)
	w.serve(echo)
	w.start(w.config("auth-full", "max_sources: 1024"))
	for n := range uint16(3000) {
		site := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(n >> 8), byte(n), 15: 1})
		client.send(seg{from: netip.AddrPortFrom(site, 5000), to: w.ServiceAddr(true, port), seq: 1, ack: 2, flags: ack})
	}
	w.await("they are on it", func() bool { return w.counters()["white_added"] >= 3000 })
	for _, ipv6 := range families() {
		_ = w.ping(ipv6) // is reset, and whitelists the client
		if err := w.ping(ipv6); err != nil {
			t.Errorf("%s: a client that has proven itself got %v", familyName(ipv6), err)
		}
	}
	w.wantCounters(map[string]uint64{"white_full": 0})
}
