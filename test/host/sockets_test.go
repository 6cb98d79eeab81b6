// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Bare blocking sockets: a socket keeps the namespace of the thread that made
// it, and a test says exactly which options it has.

// ioTimeout bounds one system call on a socket; reaching it means a stall.
const ioTimeout = 5 * time.Second

const webPort = 80

type conn struct {
	fd   int
	once *sync.Once
}

// newConn bounds every call on a socket, accept included.
func newConn(fd int) (conn, error) {
	tv := unix.NsecToTimeval(int64(ioTimeout))
	err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
	return conn{fd, new(sync.Once)}, err
}

func (c conn) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(c.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (c conn) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.SendmsgN(c.fd, b[done:], nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (c conn) Close() error {
	err := error(nil)
	c.once.Do(func() { err = unix.Close(c.fd) })
	return err
}

// vanish closes the socket without telling the peer, as a reboot does.
func (c conn) vanish() error {
	if err := harness.Vanish(c.fd); err != nil {
		return err
	}
	return c.Close()
}

func (c conn) info() (*unix.TCPInfo, error) {
	return unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// socket makes one in a namespace.
func socket(n *rig.Namespace, ipv6 bool, proto int) (fd int, err error) {
	domain := unix.AF_INET
	if ipv6 {
		domain = unix.AF_INET6
	}
	err = n.Do(func() (err error) {
		fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, proto)
		return err
	})
	return fd, err
}

// dialer is how a connection is opened.
type dialer struct {
	from      *rig.Namespace
	to        netip.AddrPort
	localPort uint16             // 0: any
	setup     func(fd int) error // before connect
}

func (d dialer) dial() (conn, error) {
	fd, err := socket(d.from, d.to.Addr().Is6(), unix.IPPROTO_TCP)
	if err != nil {
		return conn{}, err
	}
	c, err := newConn(fd)
	if err == nil && d.setup != nil {
		err = d.setup(fd)
	}
	if err == nil && d.localPort != 0 {
		any := netip.IPv4Unspecified()
		if d.to.Addr().Is6() {
			any = netip.IPv6Unspecified()
		}
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, sockaddr(netip.AddrPortFrom(any, d.localPort))))
	}
	if err == nil {
		for err = unix.Connect(fd, sockaddr(d.to)); errors.Is(err, unix.EINTR); {
			err = unix.Connect(fd, sockaddr(d.to))
		}
	}
	if err != nil {
		c.Close()
		return conn{}, err
	}
	return c, nil
}

// dial opens a plain connection from the client to a port of the server.
func (w *world) dial(ipv6 bool, port uint16) (conn, error) {
	return dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(ipv6), port)}.dial()
}

// mustDial is dial, and closes the connection when the test ends.
func (w *world) mustDial(ipv6 bool, port uint16) conn {
	w.t.Helper()
	c, err := w.dial(ipv6, port)
	if err != nil {
		w.t.Fatalf("connect, %s: %v", familyName(ipv6), err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// listener is a listening socket in the server's namespace.
type listener struct {
	fd    int
	done  chan struct{} // closed when the accept loop has ended
	conns chan conn     // for tests that take the connections themselves
}

// listenOn makes a listening socket for both families without an accept loop.
func (w *world) listenOn(port uint16, proto, backlog int) *listener {
	w.t.Helper()
	ipv6 := rig.HaveIPv6()
	fd, err := socket(w.Server, ipv6, proto)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = newConn(fd)
	addr := netip.IPv4Unspecified()
	if ipv6 {
		addr = netip.IPv6Unspecified()
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0))
	}
	err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, sockaddr(netip.AddrPortFrom(addr, port))), unix.Listen(fd, backlog))
	if err != nil {
		unix.Close(fd)
		w.t.Fatal(err)
	}
	l := &listener{fd: fd, done: make(chan struct{}), conns: make(chan conn, 64)}
	close(l.done)
	w.t.Cleanup(l.close)
	return l
}

// accept takes one connection.
func (l *listener) accept() (conn, error) {
	for {
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return conn{}, err
		}
		return newConn(fd)
	}
}

// serve accepts until the listener is closed, each connection to a goroutine.
func (l *listener) serve(handle func(conn)) {
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		for {
			c, err := l.accept()
			if errors.Is(err, unix.EAGAIN) { // no connection yet, not an error
				continue
			}
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
}

// close ends the accept loop and the listener.
func (l *listener) close() {
	if l.fd < 0 {
		return
	}
	_ = unix.Shutdown(l.fd, unix.SHUT_RD)
	<-l.done
	unix.Close(l.fd)
	l.fd = -1
}

// echoServer answers every byte with itself on a port of both families.
func (w *world) echoServer(port uint16) *listener {
	w.t.Helper()
	l := w.listenOn(port, unix.IPPROTO_TCP, 512)
	l.serve(echo)
	return l
}

func echo(c conn) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if errors.Is(err, unix.EAGAIN) { // idle, not an error
			continue
		}
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// ping sends a word and expects it back.
func (c conn) ping() error {
	word := []byte("tidegate?")
	if _, err := c.Write(word); err != nil {
		return fmt.Errorf("ping: send: %w", err)
	}
	back := make([]byte, len(word))
	if _, err := io.ReadFull(c, back); err != nil {
		return fmt.Errorf("ping: receive: %w", err)
	}
	if !bytes.Equal(word, back) {
		return fmt.Errorf("ping: sent %q, got %q", word, back)
	}
	return nil
}

// pingNew opens a connection, uses it once and closes it.
func (w *world) pingNew(ipv6 bool, port uint16) error {
	c, err := w.dial(ipv6, port)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	return c.ping()
}

// mustPingNew expects n new connections to be served.
func (w *world) mustPingNew(n int) {
	w.t.Helper()
	for i := range n {
		for _, ipv6 := range families() {
			if err := w.pingNew(ipv6, webPort); err != nil {
				w.t.Fatalf("connection %d, %s: %v", i, familyName(ipv6), err)
			}
		}
	}
}

// netstat reads one counter of /proc/net/netstat or snmp of a namespace.
func netstat(t *testing.T, n *rig.Namespace, group, name string) (value uint64) {
	t.Helper()
	err := n.Do(func() error {
		for _, file := range []string{"netstat", "snmp"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			var names []string
			for line := range strings.Lines(string(text)) {
				fields := strings.Fields(line)
				if len(fields) == 0 || fields[0] != group+":" {
					continue
				}
				if names == nil {
					names = fields
					continue
				}
				for i, f := range names {
					if f == name {
						value, err = strconv.ParseUint(fields[i], 10, 64)
						return err
					}
				}
			}
		}
		return fmt.Errorf("no counter %s %s", group, name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}
