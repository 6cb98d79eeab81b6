// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// each runs a test against a router and a bridge, over both families.
func each(t *testing.T, strategy string, handle func(*net.TCPConn), test func(t *testing.T, w *world, ipv6 bool)) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			if handle != nil {
				w.serve(handle)
			}
			w.start(w.config(strategy))
			for _, ipv6 := range families() {
				t.Run(familyName(ipv6), func(t *testing.T) { test(t, w, ipv6) })
			}
		})
	}
}

// SSH, SMTP: the client waits for the server to speak first.
func TestServerSpeaksFirst(t *testing.T) {
	each(t, "cookie", func(c *net.TCPConn) {
		fmt.Fprintln(c, "220 ready")
		echo(c)
	}, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for _, want := range []string{"220 ready\n", "EHLO x\n"} {
			if line, err := r.ReadString('\n'); err != nil || line != want {
				t.Fatalf("got %q, %v, want %q", line, err, want)
			}
			fmt.Fprint(c, "EHLO x\n")
		}
		if !ipv6 { // the server is known by now, so timestamps are offered
			harness.WantTSvals(t, w.ClientPort, false, func() error {
				c, err := w.dial(ipv6)
				if err == nil {
					defer c.Close()
					_, err = bufio.NewReader(c).ReadString('\n')
				}
				return err
			})
		}
	})
}

// bulk answers the bytes it got before the half-close with their sum and 32 MiB.
const bulkLen = 32 << 20

func bulkServer(c *net.TCPConn) { serveBulk(c, bulkLen) }

func serveBulk(c *net.TCPConn, size int64) {
	defer c.Close()
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		return
	}
	_, _ = c.Write(h.Sum(nil))
	_, _ = io.Copy(c, bulkData(2, size))
}

func bulkData(seed uint64, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), size)
}

func bulkSum(seed uint64, size int64) (sum [32]byte) {
	h := sha256.New()
	_, _ = io.Copy(h, bulkData(seed, size))
	copy(sum[:], h.Sum(nil))
	return sum
}

// acquaint makes the server known to the box: the first client of an unknown server
// is offered no options.
func (w *world) acquaint(ipv6 bool) {
	w.t.Helper()
	before := w.counters()["flow_ready"]
	c, err := w.dial(ipv6)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	w.await("the server is known", func() bool { return w.counters()["flow_ready"] > before })
}

func transfer(w *world, ipv6 bool) error {
	w.acquaint(ipv6)
	c, err := w.dial(ipv6)
	if err != nil {
		return err
	}
	wantAllOptions(w.t, c)
	return transferOver(c, bulkLen)
}

// wantAllOptions fails unless the connection has timestamps, SACK and window scaling: a test of how they are translated shows
// nothing without.
func wantAllOptions(t *testing.T, c *net.TCPConn) {
	t.Helper()
	const all = 1 | 2 | 4 // TCPI_OPT_TIMESTAMPS, _SACK and _WSCALE of linux/tcp.h
	if got := tcpInfo(t, c).Options; got&all != all {
		t.Fatalf("the connection has the options %#x of TCP_INFO, want %#x", got, all)
	}
}

// transferOver sends this many bytes each way over the connection and compares sums.
func transferOver(c *net.TCPConn, size int64) error {
	defer c.Close()
	if _, err := io.Copy(c, bulkData(1, size)); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	var up [32]byte
	if _, err := io.ReadFull(c, up[:]); err != nil {
		return fmt.Errorf("the server's sum: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		return fmt.Errorf("download: %w", err)
	}
	if up != bulkSum(1, size) || [32]byte(h.Sum(nil)) != bulkSum(2, size) {
		return errors.New("sums differ")
	}
	return nil
}

// Half-close, and bulk data both ways.
func TestBulk(t *testing.T) {
	each(t, "cookie", bulkServer, func(t *testing.T, w *world, ipv6 bool) {
		if err := transfer(w, ipv6); err != nil {
			t.Error(err)
		}
	})
}

// The same with one packet in fifty lost on either side of the box: SACK and
// retransmissions are translated.
func TestBulkWithLoss(t *testing.T) {
	each(t, "cookie", bulkServer, func(t *testing.T, w *world, ipv6 bool) {
		for _, n := range []*rig.Namespace{w.Client, w.Server} {
			w.nft(n, "add table inet loss\nadd chain inet loss in { type filter hook input priority 0; }\n"+
				"flush chain inet loss in\nadd rule inet loss in tcp flags & syn == 0 numgen random mod 50 < 1 counter drop\n")
		}
		if err := transfer(w, ipv6); err != nil {
			t.Error(err)
		}
		for _, n := range []*rig.Namespace{w.Client, w.Server} {
			cmd := exec.Command("nft", "list", "chain", "inet", "loss", "in")
			var out harness.Output
			cmd.Stdout = &out
			if err := n.Do(cmd.Start); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil || strings.Contains(out.String(), "packets 0 ") {
				t.Errorf("nothing was lost in %s: %v, %s", n.Name, err, out.String())
			}
		}
	})
}

// A server without a listener: the client gets a reset.
func TestRefused(t *testing.T) {
	each(t, "cookie", nil, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want a reset", err)
		}
	})
}

// A RST of either side reaches the other.
func TestResetByClient(t *testing.T) {
	got := make(chan error, 8)
	each(t, "cookie", func(c *net.TCPConn) {
		defer c.Close()
		_, _ = c.Write([]byte("x"))
		_, err := c.Read(make([]byte, 1))
		got <- err
	}, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetLinger(0)
		c.Close()
		if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server got %v, want a reset", err)
		}
	})
}

func TestResetByServer(t *testing.T) {
	each(t, "cookie", func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
		c.Close()
	}, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client got %v, want a reset", err)
		}
	})
}

// The same client port repeatedly, whichever side closes first: in TIME-WAIT of the
// server, and with the previous connection's flow still in the table.
func TestPortReuse(t *testing.T) {
	each(t, "cookie", harness.CloseFirst, func(t *testing.T, w *world, ipv6 bool) {
		for i := range 60 {
			who := []byte{harness.ClientCloses, harness.ServerCloses}[i%2]
			if err := harness.Reuse(w.Client, w.ServiceAddr(ipv6, port), 40000, who); err != nil {
				t.Fatalf("connection %d, closed by %c: %v", i, who, err)
			}
		}
	})
}
