// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/upstream"
)

// serveTest serves a table for one border manager and returns that manager's TLS configuration.
func serveTest(t *testing.T) (*Control, *tls.Config) {
	t.Helper()
	patrol, manager := upstream.NewIdentity(&keys.Secret{1}), upstream.NewIdentity(&keys.Secret{2})
	server, err := patrol.TLS(manager.Public())
	if err != nil {
		t.Fatal(err)
	}
	client, err := manager.TLS(patrol.Public())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := ServeControl(memoryTable(t, 1000), l, server, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	return c, client
}

func dialFrom(t *testing.T, to net.Addr, from string) net.Conn {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{LocalAddr: at, Timeout: 10 * time.Second}).Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// alive reports whether the patrol answers a keepalive within a moment.
func alive(c net.Conn) bool {
	m := make([]byte, ifp.HeaderLen)
	h := ifp.Header{Type: ifp.Stats, Length: ifp.HeaderLen}
	h.Put(m)
	_ = c.SetDeadline(time.Now().Add(handshakeSlow))
	if _, err := c.Write(m); err != nil {
		return false
	}
	_, err := c.Read(m)
	return err == nil
}

const handshakeSlow = 2500 * time.Millisecond // half of what a handshake may take

// A border manager gets through while other peers keep handshakes open.
func TestControlBesideStalledHandshakes(t *testing.T) {
	for name, from := range map[string]func(int) string{
		"one address":           func(int) string { return "127.0.0.2:0" },
		"three hundred of them": func(i int) string { return fmt.Sprintf("127.0.%d.%d:0", 1+i/200, 1+i%200) },
	} {
		t.Run(name, func(t *testing.T) {
			c, config := serveTest(t)
			for i := range 300 {
				dialFrom(t, c.Addr(), from(i))
			}
			if !alive(tls.Client(dialFrom(t, c.Addr(), "127.0.0.1:0"), config)) {
				t.Error("a border manager finds no place beside 300 stalled handshakes")
			}
		})
	}
}

// One border manager, misbehaving or reconnecting after it was cut off, has a few
// connections, the newest.
func TestControlConnectionsOfOneKey(t *testing.T) {
	c, config := serveTest(t)
	var list []*tls.Conn
	for i := range 3 * connsPerKey {
		conn := tls.Client(dialFrom(t, c.Addr(), "127.0.0.1:0"), config)
		if !alive(conn) {
			t.Fatalf("connection %d is refused", i)
		}
		list = append(list, conn)
	}
	for i, conn := range list {
		if want := i >= len(list)-connsPerKey; alive(conn) != want {
			t.Errorf("connection %d of %d is alive: %v", i, len(list), !want)
		}
	}
}
