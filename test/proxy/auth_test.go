package proxytest

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// Table II of the design's source: the first connection is interrupted, the
// source whitelisted, and from then on nothing is translated or answered.
func TestAuth(t *testing.T) {
	for _, strategy := range []string{"auth-full", "auth-cookie", "auth-ttl"} {
		t.Run(strategy, func(t *testing.T) {
			each(t, strategy, echo, func(t *testing.T, w *world, ipv6 bool) {
				before := w.counters()
				if err := w.ping(ipv6); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
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

// A client in SYN-SENT answers a wrong acknowledgement with a RST and sends its
// SYN again: the application sees nothing of it.
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

// A connection that was there before the proxy lives on under every strategy.
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
