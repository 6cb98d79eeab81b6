package patrol

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"tidegate/internal/ifp"
)

// Control serves border managers: messages of the filtering protocol on a
// connection on which both ends have proved who they are. A border manager has
// checked who may ask for what; here filters are only installed.
type Control struct {
	table    *Table
	log      *slog.Logger
	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]bool
	done     sync.WaitGroup
}

// idleLimit is after how long without a message a connection is given up; border
// managers send one each controlBeat.
const idleLimit = 60 * time.Second

// ServeControl serves until Close.
func ServeControl(t *Table, l net.Listener, config *tls.Config, log *slog.Logger) *Control {
	c := &Control{table: t, log: log, listener: tls.NewListener(l, config), conns: map[net.Conn]bool{}}
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
			time.Sleep(50 * time.Millisecond) // out of files: others may close theirs
			continue
		}
		c.mu.Lock()
		full := len(c.conns) >= 256
		if !full {
			c.conns[conn] = true
		}
		c.mu.Unlock()
		if full {
			conn.Close()
			continue
		}
		c.done.Add(1)
		go c.serve(conn)
	}
}

func (c *Control) serve(conn net.Conn) {
	defer c.done.Done()
	defer func() {
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
		conn.Close()
	}()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if err := conn.(*tls.Conn).HandshakeContext(context.Background()); err != nil {
		c.log.Warn("a border manager was refused", "from", conn.RemoteAddr(), "error", err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	c.log.Info("border manager connected", "from", conn.RemoteAddr())
	if err := c.converse(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.log.Warn("connection of a border manager ended", "from", conn.RemoteAddr(), "error", err)
	}
}

// converse answers messages in their order until the connection ends.
func (c *Control) converse(conn net.Conn) error {
	in, out := bufio.NewReaderSize(conn, 1<<17), bufio.NewWriterSize(conn, 1<<16)
	message := make([]byte, ifp.MaxStream)
	var work controlWork
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
		answer, err := work.answer(c.table, message[:n])
		if err != nil {
			return err
		}
		if _, err := out.Write(answer); err != nil {
			return err
		}
	}
}

// controlWork is what answering needs again and again.
type controlWork struct {
	filters []ifp.Filter
	grants  []ifp.Grant
	codes   []ifp.Code
	stats   []ifp.Stat
	out     []byte
}

// answer does what a message asks; an error means that the peer does not speak the
// protocol.
func (w *controlWork) answer(t *Table, message []byte) (_ []byte, err error) {
	h, err := ifp.ReadHeader(message)
	if err != nil {
		return nil, err
	}
	now := nowS()
	var bad []int
	grants := w.grants[:0]
	switch {
	case h.Count == 0:
		w.filters = w.filters[:0] // a sign of life
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
		for i := range w.filters {
			w.codes[i] = t.RemoveGranted(w.filters[i].Key(), grantOf(grants, i))
		}
	case ifp.Stats:
		w.stats = w.stats[:0]
		for i := range w.filters {
			w.stats = append(w.stats, t.StatGranted(w.filters[i].Key(), grantOf(grants, i), now))
		}
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

// Close ends all conversations.
func (c *Control) Close() {
	c.listener.Close()
	c.mu.Lock()
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.done.Wait()
}
