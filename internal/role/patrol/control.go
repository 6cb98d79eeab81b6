// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/handshake"
	"tidegate/internal/ifp"
)

// Control serves border managers: messages of the filtering protocol on a
// connection with mutual authentication. The border manager has
// checked the requester's authority; here filters are only installed.
type Control struct {
	table    *Table
	log      *slog.Logger
	listener net.Listener
	slots    *handshake.Slots
	refusals rate.Sometimes // of log lines: strangers must not fill the log
	mu       sync.Mutex
	conns    map[net.Conn]bool
	byKey    map[string][]*tls.Conn // authenticated connections, oldest first
	done     sync.WaitGroup
}

const (
	// idleLimit is how long a connection may be silent before it is closed; border
	// managers send a message each controlBeat.
	idleLimit = 60 * time.Second
	// connsPerKey bounds the connections of one border manager. A new one replaces
	// the oldest, which may well be dead.
	connsPerKey = 8
)

// ServeControl serves until Close.
func ServeControl(t *Table, l net.Listener, config *tls.Config, log *slog.Logger) *Control {
	c := &Control{table: t, log: log, listener: tls.NewListener(l, config), slots: handshake.New(),
		refusals: rate.Sometimes{First: 3, Interval: time.Second}, conns: map[net.Conn]bool{}, byKey: map[string][]*tls.Conn{}}
	c.done.Add(1)
	go c.accept()
	return c
}

func (c *Control) accept() {
	defer c.done.Done()
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // out of file descriptors: others may close theirs
			continue
		}
		leave, ok := c.slots.Enter(conn.(*tls.Conn).NetConn())
		if !ok {
			conn.(*tls.Conn).NetConn().Close()
			continue
		}
		c.mu.Lock()
		c.conns[conn] = true
		c.mu.Unlock()
		c.done.Add(1)
		go c.serve(conn.(*tls.Conn), leave)
	}
}

func (c *Control) serve(conn *tls.Conn, leave func()) {
	defer c.done.Done()
	defer c.forget(conn)
	ctx, cancel := context.WithTimeout(context.Background(), handshake.TimeLimit)
	err := conn.HandshakeContext(ctx)
	cancel()
	leave()
	if err != nil {
		c.refusals.Do(func() {
			c.log.Warn("a border manager was refused", "from", conn.RemoteAddr(), "error", err, "handshakes", c.slots.InUse(), "count", c.slots.Count())
		})
		return
	}
	c.enter(conn)
	c.log.Info("border manager connected", "from", conn.RemoteAddr())
	if err := c.converse(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.log.Warn("connection of a border manager ended", "from", conn.RemoteAddr(), "error", err)
	}
}

// keyOf is the peer's authenticated key, which the configuration names.
func keyOf(conn *tls.Conn) string {
	key, _ := conn.ConnectionState().PeerCertificates[0].PublicKey.(ed25519.PublicKey) // upstream.Identity.TLS has checked it
	return string(key)
}

// enter records the peer of a connection.
func (c *Control) enter(conn *tls.Conn) {
	key := keyOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.byKey[key]; len(of) >= connsPerKey {
		of[0].NetConn().Close() // without a TLS close, which could block
		c.byKey[key] = slices.Delete(of, 0, 1)
	}
	c.byKey[key] = append(c.byKey[key], conn)
}

func (c *Control) forget(conn *tls.Conn) {
	conn.NetConn().Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	for key, of := range c.byKey {
		if i := slices.Index(of, conn); i >= 0 {
			if of = slices.Delete(of, i, i+1); len(of) == 0 {
				delete(c.byKey, key)
			} else {
				c.byKey[key] = of
			}
		}
	}
}

// converse answers messages in their order until the connection ends.
func (c *Control) converse(conn net.Conn) error {
	in, out := bufio.NewReaderSize(conn, 1<<17), bufio.NewWriterSize(conn, 1<<16)
	message := make([]byte, ifp.MaxStream)
	var work Answerer
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
			_ = conn.SetReadDeadline(time.Now().Add(idleLimit))
		}
		if _, err := io.ReadFull(in, message[:ifp.HeaderLen]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(message[2:]))
		if n < ifp.HeaderLen {
			return ifp.ErrMessage
		}
		if _, err := io.ReadFull(in, message[ifp.HeaderLen:n]); err != nil {
			return err
		}
		answer, err := work.Answer(c.table, message[:n])
		if err != nil {
			return err
		}
		if _, err := out.Write(answer); err != nil {
			return err
		}
	}
}

// Answerer executes messages, and keeps the memory for that. For one goroutine.
type Answerer struct {
	filters []ifp.Filter
	grants  []ifp.Grant
	codes   []ifp.Code
	stats   []ifp.Stat
	out     []byte
}

// Answer executes a message; an error means that the peer violates the
// protocol. The answer is valid until the next call.
func (w *Answerer) Answer(t *Table, message []byte) (_ []byte, err error) {
	h, err := ifp.ReadHeader(message)
	if err != nil {
		return nil, err
	}
	now := nowS()
	var bad []int
	grants := w.grants[:0]
	switch {
	case h.Count == 0:
		w.filters = w.filters[:0] // a keepalive
	case h.Flags&ifp.FlagGrants != 0:
		w.filters, w.grants, bad, err = ifp.ReadGranted(w.filters, w.grants, &h, message[ifp.HeaderLen:])
		grants = w.grants
	default:
		w.filters, bad, err = ifp.ReadFilters(w.filters, &h, message[ifp.HeaderLen:])
		grants = nil
	}
	if err != nil {
		return nil, err
	}
	w.codes = append(w.codes[:0], make([]ifp.Code, len(w.filters))...)
	switch h.Type {
	case ifp.Install:
		t.InstallGranted(w.filters, grants, w.codes, now) // refuses bad ones itself
	case ifp.Remove:
		t.RemoveGranted(w.filters, grants, w.codes)
	case ifp.Stats:
		w.stats = t.StatGranted(w.filters, grants, w.stats[:0], now)
		w.out = ifp.AppendStatistics(w.out[:0], h.Request, 0, w.stats)
		return w.out, nil
	default:
		return nil, ifp.ErrMessage
	}
	for _, i := range bad {
		w.codes[i] = ifp.BadFilter
	}
	w.out = ifp.AppendResult(w.out[:0], h.Request, 0, w.codes, nil)
	return w.out, nil
}

// Addr is where border managers are served.
func (c *Control) Addr() net.Addr { return c.listener.Addr() }

// Close ends all connections.
func (c *Control) Close() {
	c.listener.Close()
	c.mu.Lock()
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.done.Wait()
}
