// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

// A listener that begins to close while the kernel has a client's final ACK in hand costs that client: Linux resets it, although
// another listener shares the port and net.ipv4.tcp_migrate_req is 1. A server that translates costs it exactly where the kernel
// alone does, and harness.Forgotten names it in both cases.
func TestClosingAtTheFinalACK(t *testing.T) {
	for _, mptcp := range []bool{false, true} {
		t.Run(fmt.Sprintf("to MPTCP %t", mptcp), func(t *testing.T) {
			w := newTranslated(t)
			w.sysctl(w.place.Server, "net.ipv4.tcp_migrate_req", "1")
			alone := w.closeAtTheFinalACK(firstClientPort, mptcp)
			w.startBoth()
			if gated := w.closeAtTheFinalACK(firstClientPort+1000, mptcp); gated != alone {
				t.Errorf("costs a client: %t, without a gate: %t", gated, alone)
			}
			t.Logf("costs a client: %t", alone)
		})
	}
}

// A server that adopts gives the kernel the listener with the cookie. If that listener has closed by the time the kernel handles the
// ACK, the kernel drops it silently. The client, which waits for the server to speak, is served by the listener that shares the
// port, or, if there is none, reset at once, as without a gate.
func TestListenerClosesBeforeTheAdoption(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *world{
		"adopt": func(t *testing.T) *world { return newWorld(t, false) }, "auto": newAuto} {
		for _, shared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, another listener %t", name, shared), func(t *testing.T) {
				w := open(t)
				w.sysctl(w.place.Server, "net.ipv4.tcp_migrate_req", "1")
				ack := harness.NewFinalACK(t)
				l := w.listenWithoutAccepting()
				w.startBoth()
				if err := w.closeBeforeTheAdoption(ack, l, shared); shared && err != nil || !shared && !errors.Is(err, unix.ECONNRESET) {
					t.Errorf("the client: %v; server %v", err, nonZero(w.server.counters()))
				}
			})
		}
	}
}

// closeBeforeTheAdoption closes l while the kernel has the ACK of a client for it, and returns what became of the client. If the port
// is to be shared, clients connect until one meets l.
func (w *world) closeBeforeTheAdoption(ack *harness.FinalACK, l net.Listener, shared bool) (err error) {
	w.t.Helper()
	if shared {
		harness.Server{Shared: true}.Serve(w.t, w.place.Server, fmt.Sprintf(":%d", port), greetAndEcho)
	}
	for from := uint16(firstClientPort); ; from++ {
		ack.At(l)
		closed := ack.During(from, func() { err = w.greeted(false, from, false) }, func() { l.Close() })
		if closed {
			return err
		}
		if shared && err != nil {
			w.t.Fatalf("a client whose ACK was not held: %v", err)
		}
		l = w.listenWithoutAccepting()
		w.await("the gate answers again", func() bool { // the edge has the server answer the first SYN after a refusal
			before := w.server.counters()["adopted"]
			if c, err := w.dial(false, 0); err == nil {
				c.Close()
			}
			return w.server.counters()["adopted"] > before
		})
	}
}

// waitingToBeAccepted is how many clients the closing listener has to hand on before it gives up its port: as long as that takes,
// the kernel can still make a socket from the ACK.
const waitingToBeAccepted = 100

// listenWithoutAccepting makes a plain listener that shares its port.
func (w *world) listenWithoutAccepting() (l net.Listener) {
	w.t.Helper()
	err := w.place.Server.Do(func() (err error) {
		lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		}}
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(w.t.Context(), "tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	return l
}

// closeAtTheFinalACK reports whether that costs a client, which comes from a port not below the one named.
func (w *world) closeAtTheFinalACK(from uint16, mptcp bool) bool {
	t := w.t
	t.Helper()
	forgotten, ack := harness.WatchForgotten(t, w.place.Server), harness.NewFinalACK(t)
	listen := func(mptcp bool) net.Listener {
		return harness.Server{MPTCP: mptcp, Shared: true}.Serve(t, w.place.Server, fmt.Sprintf(":%d", port), greetAndEcho)
	}
	for served := 0; ; from++ {
		l := w.listenWithoutAccepting()
		var waiting []*net.TCPConn
		for range waitingToBeAccepted {
			c, err := w.dial(false, 0)
			if err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, c)
		}
		ack.At(l)
		next := listen(mptcp)
		var err error
		closed := ack.During(from, func() { err = w.greeted(false, from, false) }, func() { l.Close() })
		for _, c := range waiting {
			if err := sayTo(c, "", greeting); err != nil {
				t.Errorf("a client that had waited to be accepted: %v", err)
			}
			c.Close()
		}
		next.Close()
		switch reset := errors.Is(err, unix.ECONNRESET); {
		case err != nil && !(reset && w.recorded(forgotten, from)):
			t.Fatalf("%v, and the kernel has not forgotten the client; server %v", err, nonZero(w.server.counters()))
		case err == nil && forgotten.Has(from):
			t.Fatal("the client was served, and counts as forgotten")
		case reset:
			return true
		case closed: // the kernel had the time to queue it, or does not forget it
			if served++; served == 5 {
				return false
			}
		}
	}
}
