// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
	"tidegate/internal/schema"
	harness "tidegate/test/world"
)

func (w *world) signedFlood() harness.SignedFlood {
	return harness.SignedFlood{SYNs: harness.NewSYNs(w.t, w.ClientPort, w.LegitPort), From: nobody, Server: w.Server,
		To: func(ipv6 bool) netip.AddrPort { return w.ServiceAddr(ipv6, port) }, Counters: w.counters}
}

// signed adds a setting to the only service of a configuration.
func signed(config, setting string) string {
	return strings.Replace(config, "  - name: web\n", "  - name: web\n    signed: "+setting+"\n", 1)
}

// No SYN reaches the server's TCP because of an option that it carries, under any strategy.
func TestSignedFlood(t *testing.T) {
	for _, strategy := range schema.StrategyWords() {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config(strategy))
			w.signedFlood().NothingPasses(t, 30, false)
		})
	}
}

func TestSignedDropped(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(signed(w.config("cookie"), "drop"))
	w.signedFlood().NothingPasses(t, 20, true)
}

// What passes stays within the allowance, which the plane's processors share.
func TestSignedAllowance(t *testing.T) {
	cpus := instance.OnlineCPUs()
	if testPlane == rig.PlaneDPDK {
		cpus = 1
	}
	for _, strategy := range []string{"cookie", "auth-cookie", "auth-full", "cache"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(signed(w.config(strategy), "pass\n    signed_rate: 50"))
			w.signedFlood().PassesWithin(t, 1000, 50, cpus)
		})
	}
}

// A peer with a TCP-MD5 key connects through the box with `signed: pass`; otherwise it
// gets no valid answer.
func TestSignedPeer(t *testing.T) {
	for _, strategy := range []string{"cookie", "auth-cookie", "auth-wrong", "cache"} {
		for setting, connects := range map[string]bool{"pass": true, "answer": false} {
			t.Run(strategy+" "+setting, func(t *testing.T) {
				w := newWorld(t, false)
				w.start(signed(w.config(strategy), setting))
				err := harness.SignedPing(t, w.Client, w.Server, w.clientAddr(), w.ServiceAddr(false, port))
				if connects != (err == nil) {
					t.Errorf("connect: %v", err)
				}
			})
		}
	}
}

// clientAddr is the client's own address.
func (w *world) clientAddr() (a netip.Addr) {
	w.t.Helper()
	err := w.Client.Do(func() error {
		c, err := net.Dial("udp4", w.ServiceAddr(false, port).String()) // sends nothing
		if err != nil {
			return err
		}
		a = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
		return c.Close()
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}
