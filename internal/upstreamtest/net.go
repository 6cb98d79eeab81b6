// SPDX-License-Identifier: Apache-2.0

// Package upstreamtest connects a filter manager, a border manager and patrols on the
// loopback, for tests and benchmarks. Their patrols' tables are ordinary memory.
package upstreamtest

import (
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/role/borderman"
	"tidegate/internal/role/filterman"
	"tidegate/internal/role/patrol"
	"tidegate/internal/upstream"
)

// Net is one manager of each kind, and one or more patrols.
type Net struct {
	Tables    []*patrol.Table
	Controls  []*patrol.Control
	Border    *borderman.Manager
	Engine    *filterman.Engine
	Authority *upstream.Static
	BM        upstream.Endpoint
	Log       *slog.Logger
	closers   []func()
}

// Options of a Net. Prefixes are the customers of each patrol.
type Options struct {
	Prefixes [][]netip.Prefix
	Own      []netip.Prefix // prefixes for which the filter manager has authority
	Capacity int
	Rate     int
	Protect  []netip.Prefix
	Anywhere bool // the border manager listens at the unspecified address
	Log      io.Writer
}

// NewIdentity makes an identity for a test.
func NewIdentity() *upstream.Identity {
	var s keys.Secret
	_, _ = rand.Read(s[:])
	return upstream.NewIdentity(&s)
}

var loopback = netip.MustParseAddr("127.0.0.1")

// New starts everything and waits until the patrols are connected.
func New(o Options) (n *Net, err error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	n = &Net{Authority: &upstream.Static{}, Log: slog.New(slog.NewTextHandler(o.Log, nil))}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	bmID := NewIdentity()
	var patrols []borderman.Patrol
	for _, prefixes := range o.Prefixes {
		p, err := n.patrol(prefixes, bmID, o.Capacity)
		if err != nil {
			return n, err
		}
		patrols = append(patrols, p)
	}
	var secret keys.Secret
	_, _ = rand.Read(secret[:])
	listen := loopback
	if o.Anywhere {
		listen = netip.IPv4Unspecified()
	}
	n.Border, err = borderman.New(borderman.Options{Listen: netip.AddrPortFrom(listen, 0), Identity: bmID,
		Nonces: ifp.NewNonces(&secret, time.Now()), Authority: n.Authority, Patrols: patrols, Codepoint: 47,
		Rate: o.Rate, Protect: o.Protect, Log: n.Log})
	if err != nil {
		return n, err
	}
	n.closers = append(n.closers, n.Border.Close)
	go func() { _ = n.Border.Run() }()
	if n.Engine, err = filterman.NewEngine(netip.AddrPortFrom(loopback, 0), 47); err != nil {
		return n, err
	}
	n.closers = append(n.closers, n.Engine.Close)
	n.BM = upstream.Endpoint{Addr: netip.AddrPortFrom(loopback, n.Border.Addr().Port()), Key: bmID.Public()}
	for _, prefixes := range o.Prefixes {
		for _, p := range prefixes {
			n.Authority.AddBorder(p, n.BM)
		}
	}
	for _, p := range o.Own {
		n.Authority.AddFilter(p, loopback)
	}
	for deadline := time.Now().Add(10 * time.Second); n.Border.PatrolsUp() < len(o.Prefixes); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return n, errNotUp
		}
	}
	return n, nil
}

type notUp struct{}

func (notUp) Error() string { return "the patrols did not connect" }

var errNotUp = notUp{}

func (n *Net) patrol(prefixes []netip.Prefix, bm *upstream.Identity, capacity int) (p borderman.Patrol, err error) {
	t, err := patrol.NewMemoryTable(capacity)
	if err != nil {
		return p, err
	}
	id := NewIdentity()
	config, err := id.TLS(bm.Public())
	if err != nil {
		return p, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return p, err
	}
	c := patrol.ServeControl(t, l, config, n.Log)
	n.closers = append(n.closers, c.Close)
	n.Tables, n.Controls = append(n.Tables, t), append(n.Controls, c)
	return borderman.Patrol{Name: "patrol", Addr: l.Addr().(*net.TCPAddr).AddrPort(), Key: id.Public(), Prefixes: prefixes}, nil
}

// Close stops everything.
func (n *Net) Close() {
	for i := len(n.closers) - 1; i >= 0; i-- {
		n.closers[i]()
	}
	n.closers = nil
}
