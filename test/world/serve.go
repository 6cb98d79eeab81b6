// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Server is what Serve needs besides addresses; the zero value is a plain server.
type Server struct {
	MPTCP  bool
	Shared bool          // with other listeners at the same address (SO_REUSEPORT)
	Limit  time.Duration // of a connection; 0: Patience
}

// Serve listens in a namespace at an address ("" before the port: at all of them) and passes each connection to
// handle. When the test ends it closes the listener and every connection, and waits for all goroutines.
func (s Server) Serve(t *testing.T, n *rig.Namespace, at string, handle func(*net.TCPConn)) net.Listener {
	t.Helper()
	var l net.Listener
	err := n.Do(func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(s.MPTCP)
		if s.Shared {
			lc.Control = func(_, _ string, raw syscall.RawConn) error {
				return raw.Control(func(fd uintptr) {
					_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
				})
			}
		}
		l, err = lc.Listen(t.Context(), "tcp", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	limit := s.Limit
	if limit == 0 {
		limit = Patience * slowness
	}
	var wg sync.WaitGroup
	var conns []net.Conn // owned by the accept loop and, after its end, by the cleanup
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			_ = c.SetDeadline(time.Now().Add(limit))
			wg.Go(func() { handle(c.(*net.TCPConn)) })
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-accepting
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	})
	return l
}

// Serve starts a plain server at each of these addresses.
func Serve(t *testing.T, n *rig.Namespace, handle func(*net.TCPConn), at ...netip.AddrPort) {
	t.Helper()
	for _, a := range at {
		Server{}.Serve(t, n, a.String(), handle)
	}
}

// Client is what Dial needs besides an address; the zero value uses any port.
type Client struct {
	LocalPort uint16        // used even if a connection in TIME-WAIT has it
	Timeout   time.Duration // of connecting; 0: Patience
	From      netip.Addr    // of any port; the zero value: the route's
}

// Dial opens a plain TCP connection from a namespace, with Patience as its deadline.
func (d Client) Dial(n *rig.Namespace, to netip.AddrPort) (c *net.TCPConn, err error) {
	dialer := net.Dialer{Timeout: d.Timeout}
	dialer.SetMultipathTCP(false)
	if d.Timeout == 0 {
		dialer.Timeout = Patience * slowness
	}
	if d.LocalPort != 0 {
		dialer.LocalAddr = &net.TCPAddr{Port: int(d.LocalPort)}
		dialer.Control = func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			})
		}
	}
	if d.From.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(d.From, 0))
	}
	err = n.Do(func() error {
		conn, err := dialer.Dial("tcp", to.String())
		if err != nil {
			return err
		}
		c = conn.(*net.TCPConn)
		return c.SetDeadline(time.Now().Add(Patience * slowness))
	})
	return c, err
}

// Dial opens a plain TCP connection from a namespace.
func Dial(n *rig.Namespace, to netip.AddrPort) (*net.TCPConn, error) { return Client{}.Dial(n, to) }

// Echo sends back what it receives, with one descriptor per connection, and closes after end of file.
func Echo(c *net.TCPConn) {
	defer c.Close()
	for b := make([]byte, 32<<10); ; {
		n, err := c.Read(b)
		if n > 0 {
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// word is what Word and Ping send.
const word = "tidegate?"

// Word has the word echoed and leaves the connection open.
func Word(c net.Conn) error {
	if _, err := c.Write([]byte(word)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var got [len(word)]byte
	if n, err := io.ReadFull(c, got[:]); err != nil {
		return fmt.Errorf("got %q: %w", got[:n], err)
	}
	if string(got[:]) != word {
		return fmt.Errorf("sent %q, got %q", word, got)
	}
	return nil
}

// Ping sends the word and half-closes, reads the word and end of file, and closes; err is that of connecting.
func Ping(c *net.TCPConn, err error) error {
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(word)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("got %q: %w", got, err)
	}
	if string(got) != word {
		return fmt.Errorf("sent %q, got %q", word, got)
	}
	return nil
}
