// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// closers are which side closes first. The byte that a client sends tells its server.
var closers = []struct {
	name           string
	byte           byte
	server, client func(*net.TCPConn) error // called when the byte has been echoed, before closing
}{
	{"client", 'c', awaitEnd, closeFirst},
	{"server", 's', closeFirst, awaitEnd},
	{"both", 'b', closeFirst, closeFirst},
}

func closeFirst(*net.TCPConn) error { return nil }

func awaitEnd(c *net.TCPConn) error {
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("the other side has not closed: %d, %w", n, err)
	}
	return nil
}

// A client's port can be reused at once, whichever side closed first: every last segment
// gets through, and a SYN with a tuple that was just in use opens a new connection. A kernel
// whose own side closed first releases a port from TIME-WAIT if the connection had timestamps;
// without them it returns EADDRNOTAVAIL for a minute, with a box in between or without one.
func TestRouterSamePort(t *testing.T) {
	const connections, mostRetransmits = 20, 3
	for _, ipv6 := range families() {
		for name, c := range map[string]struct{ timestamps, timeWaits int }{
			"timestamps":              {1, 4096},
			"timestamps, no TIMEWAIT": {1, 0},
			"no TIMEWAIT":             {0, 0},
		} {
			t.Run(familyName(ipv6)+" "+name, func(t *testing.T) {
				w := router(t)
				w.sysctl(w.Client, "tcp_timestamps", c.timestamps)
				w.sysctl(w.Client, "tcp_max_tw_buckets", c.timeWaits)
				w.serve(echoOnce)
				// The first connection to a server that the box does not know has no timestamps.
				if err := w.once(ipv6, 5554, 's', awaitEnd); err != nil {
					t.Fatal(err)
				}
				for i, first := range closers {
					again := w.segmentsRetransmitted()
					for n := range connections {
						if err := w.once(ipv6, 5555+i, first.byte, first.client); err != nil {
							t.Fatalf("%s closes first: connection %d from the same port: %v", first.name, n, err)
						}
					}
					if again = w.segmentsRetransmitted() - again; again > mostRetransmits {
						t.Errorf("%s closes first: %d segments of %d connections were sent again, want at most %d",
							first.name, again, connections, mostRetransmits)
					}
				}
			})
		}
	}
}

// echoOnce sends one byte back, and closes as that byte says.
func echoOnce(c *net.TCPConn) {
	defer c.Close()
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil {
		return
	}
	if _, err := c.Write(b); err != nil {
		return
	}
	for _, how := range closers {
		if how.byte == b[0] {
			_ = how.server(c)
		}
	}
}

// once has a byte echoed over a connection from that port, and waits for the port: the last
// segments of the previous connection may be in flight.
func (w *world) once(ipv6 bool, from int, b byte, end func(*net.TCPConn) error) error {
	return w.Client.Do(func() error {
		d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{Port: from}, Control: reuseAddr}
		d.SetMultipathTCP(false)
		var conn net.Conn
		var err error
		for last := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			conn, err = d.Dial("tcp", w.ServiceAddr(ipv6, port).String())
			if !errors.Is(err, unix.EADDRNOTAVAIL) || time.Now().After(last) {
				break
			}
		}
		if err != nil {
			return err
		}
		c := conn.(*net.TCPConn)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		if _, err := c.Read([]byte{0}); err != nil {
			return err
		}
		return end(c)
	})
}

func reuseAddr(_, _ string, raw syscall.RawConn) error {
	var err error
	return errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}), err)
}

// sysctl sets one of net.ipv4 in a namespace.
func (w *world) sysctl(at *rig.Namespace, name string, value int) {
	w.t.Helper()
	if err := at.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(strconv.Itoa(value)), 0)
	}); err != nil {
		w.t.Fatal(err)
	}
}

// segmentsRetransmitted is the sum over the kernels of the client and the server.
func (w *world) segmentsRetransmitted() int {
	return w.kernelCounter(w.Client, "snmp", "Tcp:", "RetransSegs") + w.kernelCounter(w.Server, "snmp", "Tcp:", "RetransSegs")
}

// kernelCounter is a counter of a namespace in /proc/net/FILE: a line of names, then one of numbers.
func (w *world) kernelCounter(at *rig.Namespace, file, group, name string) int {
	w.t.Helper()
	var text []byte
	if err := at.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/" + file)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != group {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if i := slices.Index(names, name); i >= 0 && i < len(fields) {
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	w.t.Fatalf("the kernel does not count %s %s", group, name)
	return 0
}
