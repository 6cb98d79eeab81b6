// SPDX-License-Identifier: Apache-2.0

// Package node runs the flood engine over TLS: it dials, listens, reads, writes
// and keeps time. It must not decide anything about records or peers that the
// engine could decide.
package node

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
	"tidegate/internal/binding/store"
	"tidegate/internal/handshake"
)

// Neighbour is a manager that is always connected, and trusted to be one before
// any binding is known.
type Neighbour struct {
	Addr string // host:port; empty: it dials us
	Key  binding.Key
}

// Options of a node.
type Options struct {
	Store      *store.Store // the caller closes it, after the node
	Key        ed25519.PrivateKey
	Listen     string // host:port; empty: nobody can dial us
	Neighbours []Neighbour
	// Degree: as long as there are fewer connections, managers of the store that
	// have a flood endpoint are dialled (0: only Neighbours).
	Degree   int
	Limits   flood.Limits
	Log      *slog.Logger
	OnRecord func(r *binding.Record) // called with locks held: be quick, call nothing here
}

const (
	handshakeTime = handshake.TimeLimit
	redialMin     = time.Second
	redialMax     = time.Minute
	writeTime     = 30 * time.Second
	syncEvery     = time.Second
	meshEvery     = 5 * time.Second
)

// Node is a running manager of bindings.
type Node struct {
	opts  Options
	self  binding.Key
	cert  tls.Certificate
	known map[binding.Key]bool // neighbours
	ln    net.Listener
	stop  context.CancelFunc
	ctx   context.Context
	wg    sync.WaitGroup

	mu     sync.Mutex // engine and conns
	engine *flood.Engine
	conns  map[binding.Key]*conn
}

// Start listens, dials and runs until ctx ends or Close is called.
func Start(ctx context.Context, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	cert, err := certificate(o.Key)
	if err != nil {
		return nil, err
	}
	n := &Node{opts: o, self: binding.Key(o.Key.Public().(ed25519.PublicKey)), cert: cert, known: map[binding.Key]bool{},
		conns: map[binding.Key]*conn{}}
	for _, nb := range o.Neighbours {
		n.known[nb.Key] = true
	}
	n.ctx, n.stop = context.WithCancel(ctx)
	n.engine = flood.New(flood.Options{Store: o.Store, Limits: o.Limits, Allow: n.allowed, Seed: rand.Uint64(),
		OnRecord: func(r *binding.Record, _ flood.Peer) {
			if o.OnRecord != nil {
				o.OnRecord(r)
			}
		}})
	if o.Listen != "" {
		if n.ln, err = net.Listen("tcp", o.Listen); err != nil {
			n.stop()
			return nil, fmt.Errorf("bindings: %w; choose another address to listen at", err)
		}
		n.spawn(n.accept)
	}
	for _, nb := range o.Neighbours {
		if nb.Addr != "" {
			n.spawn(func() { n.keepDialling(nb) })
		}
	}
	n.spawn(n.keepTime)
	n.spawn(n.keepMesh)
	return n, nil
}

func (n *Node) spawn(f func()) {
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		f()
	}()
}

// Addr is where the node listens.
func (n *Node) Addr() net.Addr { return n.ln.Addr() }

// Close ends every connection and waits for all that the node started.
func (n *Node) Close() error {
	n.stop()
	var err error
	if n.ln != nil {
		err = n.ln.Close()
	}
	n.mu.Lock()
	for _, c := range n.conns {
		c.tls.NetConn().Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
	return errors.Join(err, n.opts.Store.Sync())
}

// Publish stores a record of our own and sends it to every peer.
func (n *Node) Publish(raw []byte) (*binding.Record, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.engine.Publish(raw, time.Now())
	n.dispatch()
	if err != nil {
		return r, err
	}
	return r, n.opts.Store.Sync()
}

// Stats returns the engine's counters.
func (n *Node) Stats() flood.Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine.Stats()
}

// allowed tells who may be connected: configured neighbours, and managers with a
// valid binding.
func (n *Node) allowed(key binding.Key) bool {
	return key != n.self && (n.known[key] || len(n.opts.Store.Managers(key)) > 0)
}

func (n *Node) checkAllowed(key binding.Key) error {
	if !n.allowed(key) {
		return fmt.Errorf("key %s is neither a configured neighbour's nor a manager's with a valid binding", key)
	}
	return nil
}

// keepTime drives the engine and the store's file.
func (n *Node) keepTime() {
	tick := time.NewTicker(flood.TickEvery)
	defer tick.Stop()
	lastSync := time.Now()
	for {
		select {
		case <-n.ctx.Done():
			return
		case now := <-tick.C:
			n.mu.Lock()
			n.engine.Tick(now)
			n.dispatch()
			n.mu.Unlock()
			if now.Sub(lastSync) < syncEvery {
				continue
			}
			lastSync = now
			if err := n.opts.Store.Sync(); err != nil {
				n.opts.Log.Error("bindings cannot be written to disk", "error", err)
			}
		}
	}
}

// accept takes connections. Handshakes of strangers are bounded in number, of each
// network too, and in time.
func (n *Node) accept() {
	slots := handshake.New()
	refusals := rate.Sometimes{First: 3, Interval: time.Second} // strangers must not fill the log
	for {
		raw, err := n.ln.Accept()
		if n.ctx.Err() != nil {
			return
		}
		if err != nil { // out of descriptors, perhaps: not forever
			n.opts.Log.Warn("bindings: accept", "error", err)
			n.pause(redialMin)
			continue
		}
		leave, ok := slots.Enter(raw)
		if !ok {
			raw.Close()
			continue
		}
		n.spawn(func() {
			c := tls.Server(raw, tlsConfig(n.cert, n.checkAllowed))
			key, err := n.shake(c)
			leave()
			if err != nil {
				refusals.Do(func() {
					n.opts.Log.Info("bindings: connection refused", "from", raw.RemoteAddr().String(), "error", err,
						"handshakes", slots.InUse(), "count", slots.Count())
				})
				return
			}
			n.serve(c, key, false)
		})
	}
}

func (n *Node) shake(c *tls.Conn) (binding.Key, error) {
	ctx, cancel := context.WithTimeout(n.ctx, handshakeTime)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		c.NetConn().Close()
		return binding.Key{}, err
	}
	return peerKey(c.ConnectionState())
}

// keepDialling keeps a configured neighbour connected.
func (n *Node) keepDialling(nb Neighbour) {
	wait := redialMin
	for n.ctx.Err() == nil {
		if n.connected(nb.Key) {
			wait = redialMin
		} else if err := n.dial(nb); err != nil {
			n.opts.Log.Info("bindings: neighbour not reached", "address", nb.Addr, "error", err)
			wait = min(2*wait, redialMax)
		} else {
			wait = redialMin
		}
		n.pause(wait/2 + rand.N(wait))
	}
}

// dial connects and serves the connection until it ends.
func (n *Node) dial(nb Neighbour) error {
	ctx, cancel := context.WithTimeout(n.ctx, handshakeTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", nb.Addr)
	if err != nil {
		return err
	}
	c := tls.Client(raw, tlsConfig(n.cert, func(key binding.Key) error {
		if key != nb.Key {
			return fmt.Errorf("key %s answers at %s; expected %s", key, nb.Addr, nb.Key)
		}
		return n.checkAllowed(key)
	}))
	key, err := n.shake(c)
	if err != nil {
		return err
	}
	return n.serve(c, key, true)
}

func (n *Node) connected(key binding.Key) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conns[key] != nil
}

// keepMesh dials managers of the store while there are too few connections.
func (n *Node) keepMesh() {
	for n.ctx.Err() == nil {
		n.pause(meshEvery/2 + rand.N(meshEvery))
		n.mu.Lock()
		missing := n.opts.Degree - len(n.conns)
		n.mu.Unlock()
		if missing <= 0 || n.ctx.Err() != nil {
			continue
		}
		for _, nb := range n.candidates(missing) {
			n.spawn(func() {
				if err := n.dial(nb); err != nil {
					n.opts.Log.Info("bindings: manager not reached", "address", nb.Addr, "error", err)
				}
			})
		}
	}
}

// candidates picks managers at random that are not connected.
func (n *Node) candidates(count int) []Neighbour {
	var list []Neighbour
	seen := 0
	for _, r := range n.opts.Store.All() {
		for _, e := range r.Endpoints {
			if e.Service != binding.ServiceFlood || !n.allowed(r.Key) || n.connected(r.Key) {
				continue
			}
			// Every candidate is as likely as the others, however many there are.
			nb := Neighbour{Addr: e.Addr.String(), Key: r.Key}
			if seen++; len(list) < count {
				list = append(list, nb)
			} else if i := rand.IntN(seen); i < count {
				list[i] = nb
			}
		}
	}
	return list
}

// pause waits, or until the node ends.
func (n *Node) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
}
