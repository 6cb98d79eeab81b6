// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Connections idle for three swap periods: the
// keep-alives of either end keep them in the table. 10,000 of them in `make soak`.
func TestIdleConnections(t *testing.T) {
	n, period, extra := 200, 2*time.Second, "swap_period: 2s\nidle_time: 2s"
	if soaking() {
		n, period, extra = 10_000, 6*time.Second, "swap_period: 6s\nidle_time: 6s"
	}
	w := newWorld(t, false)
	// The server is a process of its own, since each has its own limit of open files.
	w.serverProcess([]uint16{port}, "/usr/bin/env", envIdleServer+"="+strconv.Itoa(port), os.Args[0])
	w.start(w.config("cookie", extra))
	conns := make([]*net.TCPConn, n)
	open := func(i int) error {
		c, err := w.dial(len(families()) > 1 && i%4 >= 2)
		if err != nil {
			return err
		}
		conns[i] = c
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		who := "cs"[i%2]
		if err := c.SetKeepAliveConfig(keepAlive(who == 'c')); err != nil {
			return err
		}
		b := []byte{who}
		if _, err := c.Write(b); err != nil {
			return err
		}
		_, err = c.Read(b)
		return err
	}
	parallel(t, n, open)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	time.Sleep(3 * period) // only time makes a table old
	parallel(t, n, func(i int) error {
		b := []byte("x")
		if _, err := conns[i].Write(b); err != nil {
			return err
		}
		_, err := conns[i].Read(b)
		return err
	})
	w.wantCounters(map[string]uint64{"flow_opened": uint64(n), "cookie_invalid": 0, "flow_full": 0})
}

// envIdleServer makes the test binary an echo server on that port.
const envIdleServer = "TIDEGATE_TEST_IDLE_SERVER"

func keepAlive(on bool) net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: on, Idle: time.Second, Interval: time.Second, Count: 10}
}

// idleServer echoes, and enables keep-alives on connections whose first byte is an s.
func idleServer(port string) int {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go func() {
			defer c.Close()
			b := make([]byte, 1)
			if _, err := c.Read(b); err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetKeepAliveConfig(keepAlive(b[0] == 's'))
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
				if _, err := c.Read(b); err != nil {
					return
				}
			}
		}()
	}
}

// parallel calls do n times, several at once, and fails the test for each error.
func parallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	failed := make(chan error, n)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	close(failed)
	if len(failed) > 0 {
		t.Fatalf("%d of %d failed, the first: %v", len(failed), n, <-failed)
	}
}

// bypass gives the server a path to the client that does not pass the box.
func (w *world) bypass() {
	w.t.Helper()
	w.ip(w.Server, "link add tg-by type veth peer name tg-by netns "+w.Client.Name,
		"addr add 198.18.7.1/30 dev tg-by", "link set tg-by up")
	w.ip(w.Client, "addr add 198.18.7.2/30 dev tg-by", "link set tg-by up")
	w.ip(w.Server, "route add 198.18.2.2/32 via 198.18.7.2")
}

// The servers' answers do not pass the box. The auth strategies need only what
// clients send.
func TestAsymmetricReturnAuth(t *testing.T) {
	w := newWorld(t, false)
	w.bypass()
	w.serve(echo)
	w.start(w.config("auth-cookie"))
	if err := w.ping(false); err == nil {
		t.Error("the first connection was not interrupted")
	}
	for range 3 {
		if err := w.ping(false); err != nil {
			t.Error(err)
		}
	}
}

// `cookie` needs both directions: no client is served, nor gets another's
// data, and the log says why.
func TestAsymmetricReturnCookie(t *testing.T) {
	w := newWorld(t, false)
	w.bypass()
	w.serve(echo)
	b := w.start(w.config("cookie"))
	w.await("the log says that one side is not seen", func() bool {
		c, err := w.dial(false)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatalf("%d bytes came over a connection that cannot be", n)
		}
		return strings.Contains(b.Stderr.String(), "only one direction of the traffic passes here")
	})
	w.wantCounters(map[string]uint64{"flow_ready": 0})
}
