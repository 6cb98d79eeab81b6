// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// serve listens in the server's namespace and gives each connection to handle.
func (w *place) serve(handle func(*net.TCPConn)) {
	w.t.Helper()
	for _, ipv6 := range families() {
		harness.Serve(w.t, w.Server, handle, w.address(ipv6, port))
	}
}

// dial opens a connection from the client; localPort 0: any.
func (w *place) dial(ipv6 bool, localPort uint16) (*net.TCPConn, error) {
	return harness.Client{LocalPort: localPort}.Dial(w.Client, w.address(ipv6, port))
}

// echo sends back what it receives and closes after end of file.
func echo(c *net.TCPConn) { harness.Echo(c) }

// echoLong does the same for clients that stay connected over restarts.
func echoLong(c *net.TCPConn) {
	_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
	echo(c)
}

// say has a word echoed.
func say(c *net.TCPConn, word string) error {
	if _, err := io.WriteString(c, word); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
		return fmt.Errorf("got %q, %w", got, err)
	}
	return nil
}

// ping opens a connection, has a word echoed, half-closes, and reads end of file.
func (w *place) ping(ipv6 bool) error {
	c, err := w.dial(ipv6, 0)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if err := say(c, "tidegate?"); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
		return fmt.Errorf("end: %q, %w", rest, err)
	}
	return nil
}

// A request is one letter: which side closes first.
const (
	serverCloses = 's'
	clientCloses = 'c'
)

// oneShot answers one request and closes, or waits for the client to close.
func oneShot(c *net.TCPConn) {
	defer c.Close()
	var b [1]byte
	if _, err := c.Read(b[:]); err != nil {
		return
	}
	if _, err := c.Write(b[:]); err != nil || b[0] == serverCloses {
		return
	}
	_, _ = c.Read(b[:]) // the end
}

// request makes one from a given port and follows the connection to its end.
func (w *place) request(ipv6 bool, localPort uint16, who byte) error {
	c, err := w.dial(ipv6, localPort)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if err := say(c, string(who)); err != nil {
		return err
	}
	if who == serverCloses {
		var b [1]byte
		if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, io.EOF) {
			return fmt.Errorf("end: %d bytes, %w", n, err)
		}
	}
	return nil
}

// netstat reads a counter of a namespace.
func (w *place) netstat(n *rig.Namespace, name string) uint64 {
	w.t.Helper()
	var text []byte
	if err := n.Do(func() error {
		for _, file := range []string{"netstat", "snmp"} {
			more, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			text = append(text, more...)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "TcpExt:" && f[0] != "Tcp:" && f[0] != "Ip:" {
			continue
		}
		for i, key := range names {
			if key == name {
				v, err := strconv.ParseUint(f[i], 10, 64)
				if err != nil {
					w.t.Fatal(err)
				}
				return v
			}
		}
		names = f
	}
	w.t.Fatalf("netstat has no %s", name)
	return 0
}

func (w *place) sysctl(n *rig.Namespace, name, value string) {
	w.t.Helper()
	if err := n.SetSysctl(name, value); err != nil {
		w.t.Fatal(err)
	}
}
