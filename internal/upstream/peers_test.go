// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"tidegate/internal/keys"
)

func identity(b byte) *Identity { return NewIdentity(&keys.Secret{b}) }

// A listener delivers peers with a known key only, silent connections do not stop it, and one key has a bounded number
// of connections: the oldest goes.
func TestPeerListener(t *testing.T) {
	server, known, stranger := identity(1), identity(2), identity(3)
	config, err := server.TLSWith(func(key ed25519.PublicKey) bool { return known.Public().Equal(key) })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := ListenPeers(raw, config, 2, slog.New(slog.DiscardHandler))
	at := raw.Addr().(*net.TCPAddr).AddrPort()
	silent, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	connect := func(id *Identity, to *Identity) (net.Conn, error) {
		dial, err := id.Dialer(Peer{Addr: at, Key: to.Public()})
		if err != nil {
			t.Fatal(err)
		}
		return dial(t.Context())
	}
	if c, err := connect(stranger, server); err == nil { // the server's refusal comes after the client's part of the handshake
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stranger is not refused: %v", err)
		}
		c.Close()
	}
	if _, err := connect(known, stranger); err == nil {
		t.Error("a client accepts another key than the one that it wants")
	}
	var clients []net.Conn
	for range 3 {
		c, err := connect(known, server)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
		at, err := p.Accept()
		if err != nil || !known.Public().Equal(at.(*PeerConn).Key()) {
			t.Fatalf("%v", err)
		}
		if _, err := at.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		b := make([]byte, 1)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
		if i == 0 {
			if _, err := c.Read(b); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the oldest of three connections is still there: %v", err)
			}
		}
	}
	if n := len(p.byKey[string(known.Public())]); n != 2 {
		t.Errorf("%d connections are recorded, want 2", n)
	}
	p.Close()
	if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestParsePeer(t *testing.T) {
	key := strings.Repeat("0a", 32)
	p, err := ParsePeer(key + "@192.0.2.1:4745")
	if err != nil || p.Addr != netip.MustParseAddrPort("192.0.2.1:4745") || FormatKey(p.Key) != key {
		t.Errorf("%+v, %v", p, err)
	}
	for _, s := range []string{"", key, "@192.0.2.1:1", key + "@192.0.2.1", key[2:] + "@192.0.2.1:1"} {
		if _, err := ParsePeer(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
	if IsPeer("/run/a@b.sock") || !IsPeer(key+"@192.0.2.1:1") {
		t.Error("a path and a peer are not told apart")
	}
}
