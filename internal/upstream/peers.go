// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/handshake"
)

// PeerListener delivers connections whose peer has proven its key. Those still in their handshake are bounded
// (internal/handshake), and so are those of one key: a new one replaces the oldest, which may well be dead.
type PeerListener struct {
	raw      net.Listener
	config   *tls.Config
	perKey   int
	log      *slog.Logger
	refusals rate.Sometimes // of log lines: strangers must not fill the log
	slots    *handshake.Slots
	ready    chan net.Conn
	closed   chan struct{}
	once     sync.Once
	mu       sync.Mutex
	byKey    map[string][]*PeerConn // oldest first
	done     sync.WaitGroup
}

// PeerConn is a connection of a peer that has proven its key.
type PeerConn struct {
	*tls.Conn
	from *PeerListener
	once sync.Once
}

// ListenPeers delivers the connections to l whose handshake config accepts; at most perKey of one key at once.
func ListenPeers(l net.Listener, config *tls.Config, perKey int, log *slog.Logger) *PeerListener {
	p := &PeerListener{raw: l, config: config, perKey: perKey, log: log, refusals: rate.Sometimes{First: 3, Interval: time.Second},
		slots: handshake.New(), ready: make(chan net.Conn), closed: make(chan struct{}), byKey: map[string][]*PeerConn{}}
	p.done.Go(p.accept)
	return p
}

func (p *PeerListener) accept() {
	for {
		raw, err := p.raw.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // out of file descriptors: others may close theirs
			continue
		}
		leave, ok := p.slots.Enter(raw)
		if !ok {
			raw.Close()
			continue
		}
		p.done.Go(func() { p.shake(tls.Server(raw, p.config), leave) })
	}
}

func (p *PeerListener) shake(conn *tls.Conn, leave func()) {
	ctx, cancel := context.WithTimeout(context.Background(), handshake.TimeLimit)
	err := conn.HandshakeContext(ctx)
	cancel()
	leave()
	if err != nil {
		conn.NetConn().Close()
		p.refusals.Do(func() { p.log.Warn("a connection was refused", "from", conn.RemoteAddr(), "error", err) })
		return
	}
	c := &PeerConn{Conn: conn, from: p}
	p.enter(c)
	select {
	case p.ready <- c:
	case <-p.closed:
		c.Close()
	}
}

// enter records a connection.
func (p *PeerListener) enter(c *PeerConn) {
	key := string(c.Key())
	var oldest *PeerConn
	p.mu.Lock()
	if of := p.byKey[key]; len(of) >= p.perKey {
		oldest = of[0]
	}
	p.byKey[key] = append(p.byKey[key], c)
	p.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
}

// Key is the peer's.
func (c *PeerConn) Key() ed25519.PublicKey {
	key, _ := c.ConnectionState().PeerCertificates[0].PublicKey.(ed25519.PublicKey) // Identity.TLS has checked it
	return key
}

// Close closes the connection without a TLS close, which could block.
func (c *PeerConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.NetConn().Close()
		p, key := c.from, string(c.Key())
		p.mu.Lock()
		defer p.mu.Unlock()
		of := p.byKey[key]
		if i := slices.Index(of, c); i >= 0 {
			of = slices.Delete(of, i, i+1)
		}
		if p.byKey[key] = of; len(of) == 0 {
			delete(p.byKey, key)
		}
	})
	return err
}

// Accept implements net.Listener.
func (p *PeerListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.ready:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (p *PeerListener) Addr() net.Addr { return p.raw.Addr() }

// Close implements net.Listener. It does not close connections that Accept has delivered.
func (p *PeerListener) Close() error {
	err := net.ErrClosed
	p.once.Do(func() {
		close(p.closed)
		err = p.raw.Close()
	})
	return err
}

// Peer is where another side listens, and its key.
type Peer struct {
	Addr netip.AddrPort
	Key  ed25519.PublicKey
}

// IsPeer tells KEY@ADDRESS:PORT from a path.
func IsPeer(s string) bool { return !strings.Contains(s, "/") && strings.Contains(s, "@") }

// ParsePeer reads KEY@ADDRESS:PORT.
func ParsePeer(s string) (p Peer, err error) {
	key, addr, ok := strings.Cut(s, "@")
	if !ok {
		return p, fmt.Errorf("%q: want KEY@ADDRESS:PORT", s)
	}
	if p.Key, err = ParseKey(key); err != nil {
		return p, err
	}
	if p.Addr, err = netip.ParseAddrPort(addr); err != nil {
		return p, fmt.Errorf("%q is not an address and port; write it like 192.0.2.1:4745", addr)
	}
	return p, nil
}

// Dialer connects to a peer. The connection is good only if both sides have proven their keys.
func (i *Identity) Dialer(p Peer) (func(context.Context) (net.Conn, error), error) {
	config, err := i.TLS(p.Key)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: handshake.TimeLimit}, Config: config}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", p.Addr.String()) }, nil
}
