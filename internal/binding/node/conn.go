// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
)

// conn is one connection: messages, each after its length (4 bytes, big-endian).
type conn struct {
	tls    *tls.Conn
	key    binding.Key
	dialed bool

	mu     sync.Mutex
	queue  [][]byte // bounded by the engine: Limits.QueuedBytes
	ending bool     // close when the queue is empty
	signal chan struct{}
	done   chan struct{}
}

// serve runs a connection until it ends.
func (n *Node) serve(t *tls.Conn, key binding.Key, dialed bool) error {
	c := &conn{tls: t, key: key, dialed: dialed, signal: make(chan struct{}, 1), done: make(chan struct{})}
	defer t.NetConn().Close()
	if err := n.register(c); err != nil {
		return err
	}
	n.opts.Log.Info("bindings: connected", "peer", key.String(), "address", t.RemoteAddr().String())
	n.spawn(func() { n.write(c) })
	err := n.read(c)
	close(c.done)
	n.mu.Lock()
	if n.conns[key] == c {
		delete(n.conns, key)
		n.engine.Disconnect(key)
	}
	n.mu.Unlock()
	n.opts.Log.Info("bindings: disconnected", "peer", key.String(), "reason", err)
	return nil
}

// register makes c the connection with its peer. When both ends dial at once, the
// one that the smaller key dialled stays; of two that the same end dialled, the
// younger, for the older is likely dead.
func (n *Node) register(c *conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return n.ctx.Err()
	}
	if old := n.conns[c.key]; old != nil {
		smaller := bytes.Compare(n.self[:], c.key[:]) < 0 // we are: our dialling counts
		if old.dialed != c.dialed && old.dialed == smaller {
			return errors.New("connected already")
		}
		old.tls.NetConn().Close()
		delete(n.conns, c.key)
		n.engine.Disconnect(c.key)
	}
	if err := n.engine.Connect(c.key, time.Now()); err != nil {
		return err
	}
	n.conns[c.key] = c
	n.dispatch()
	return nil
}

// dispatch hands out what the engine wants to say. n.mu is held.
func (n *Node) dispatch() {
	for _, o := range n.engine.Drain() {
		c := n.conns[o.Peer]
		if c == nil {
			continue
		}
		c.mu.Lock()
		if o.Close {
			c.ending = true
			delete(n.conns, o.Peer)
			n.opts.Log.Warn("bindings: closing connection", "peer", o.Peer.String(), "reason", o.Why.String())
		} else {
			c.queue = append(c.queue, o.Msg)
		}
		c.mu.Unlock()
		select {
		case c.signal <- struct{}{}:
		default:
		}
	}
}

func (n *Node) write(c *conn) {
	defer c.tls.NetConn().Close() // wakes the reader
	for {
		c.mu.Lock()
		list, ending := c.queue, c.ending
		c.queue = nil
		c.mu.Unlock()
		if len(list) == 0 {
			if ending {
				return
			}
			select {
			case <-c.signal:
			case <-c.done:
				return
			case <-n.ctx.Done():
				return
			}
			continue
		}
		for _, msg := range list {
			c.tls.SetWriteDeadline(time.Now().Add(writeTime))
			framed := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(msg)), uint32(len(msg)))
			if _, err := c.tls.Write(append(framed, msg...)); err != nil {
				return
			}
			n.mu.Lock()
			if n.conns[c.key] == c {
				n.engine.Sent(c.key, len(msg))
			}
			n.mu.Unlock()
		}
	}
}

// read takes messages at the pace that the engine allows; what comes faster waits
// in the peer's own buffers.
func (n *Node) read(c *conn) error {
	var head [4]byte
	for {
		c.tls.SetReadDeadline(time.Now().Add(2 * n.silence()))
		if _, err := io.ReadFull(c.tls, head[:]); err != nil {
			return err
		}
		size := int(binary.BigEndian.Uint32(head[:]))
		if size == 0 || size > flood.MaxMessage {
			return fmt.Errorf("message of %d bytes; at most %d", size, flood.MaxMessage)
		}
		n.mu.Lock()
		wait := n.engine.Wait(c.key, size, time.Now())
		n.mu.Unlock()
		if wait > 0 {
			n.pause(wait)
		}
		msg := make([]byte, size)
		if _, err := io.ReadFull(c.tls, msg); err != nil {
			return err
		}
		n.mu.Lock()
		current := n.conns[c.key] == c
		if current {
			n.engine.Receive(c.key, msg, time.Now())
			n.dispatch()
		}
		n.mu.Unlock()
		if !current {
			return errors.New("replaced or closed")
		}
	}
}

func (n *Node) silence() time.Duration {
	if n.opts.Limits.SilenceTime > 0 {
		return n.opts.Limits.SilenceTime
	}
	return 30 * time.Second
}
