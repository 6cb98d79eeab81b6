// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// each runs a test over both families, and with XDP in both of its modes.
func each(t *testing.T, o options, handle func(*net.TCPConn), test func(t *testing.T, w *world, ipv6 bool)) {
	for _, mode := range []plane.XDPMode{plane.XDPNative, plane.XDPGeneric} {
		t.Run(string(mode), func(t *testing.T) {
			o := o // the other mode's test runs in parallel
			o.mode = mode
			w := newWorld(t, o)
			if handle != nil {
				w.serve(handle)
			}
			for _, ipv6 := range families() {
				t.Run(familyName(ipv6), func(t *testing.T) { test(t, w, ipv6) })
			}
			if t.Failed() {
				t.Logf("counters: %v", w.counters())
			}
		})
	}
}

// One connection: the client's request arrives completely, nothing waits for a
// retransmission, the edge gets a confirmation, and the kernel's own numbers never appear (the
// edge panics at a SYN-ACK).
func TestRequest(t *testing.T) {
	each(t, options{}, echo, func(t *testing.T, w *world, ipv6 bool) {
		w.promptly(t, "a request", func() {
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
		})
		w.await("the entry is closed", func() bool { return w.counter("split_closed") >= 1 })
		if n := w.counter("tag_forged") + w.counter("tag_foreign") + w.counter("tag_stale") + w.counter("drop_unmatched_ack"); n != 0 {
			t.Errorf("%d segments were refused: %v", n, w.counters())
		}
	})
}

// SSH, SMTP: the client waits for the server to speak first.
func TestServerSpeaksFirst(t *testing.T) {
	each(t, options{}, func(c *net.TCPConn) {
		fmt.Fprintln(c, "220 ready")
		echo(c)
	}, func(t *testing.T, w *world, ipv6 bool) {
		w.promptly(t, "the server's first word", func() {
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
		})
	})
}

const bulkLen = 4 << 20

func bulkData(seed uint64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), bulkLen)
}

func bulkSum(seed uint64) (sum [32]byte) {
	h := sha256.New()
	_, _ = io.Copy(h, bulkData(seed))
	copy(sum[:], h.Sum(nil))
	return sum
}

// bulkServer answers the bytes it got before the half-close with their sum, and more.
func bulkServer(c *net.TCPConn) {
	defer c.Close()
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		return
	}
	_, _ = c.Write(h.Sum(nil))
	_, _ = io.Copy(c, bulkData(2))
}

// Bulk data both ways at full MSS; the edge drops one frame in a hundred of each
// direction, so that SACK blocks are translated, too.
func TestBulk(t *testing.T) {
	for name, o := range map[string]options{
		"timestamps": {},
		"none":       {edge: func(e *edge) { e.noTS = true }},
		"no scaling": {edge: func(e *edge) { e.wscale = 15 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, o)
			w.serve(bulkServer)
			w.edge.mu.Lock()
			w.edge.lose = 100
			w.edge.mu.Unlock()
			for _, ipv6 := range families() {
				if err := w.transfer(ipv6); err != nil {
					t.Errorf("%s: %v; %v", familyName(ipv6), err, w.counters())
				}
			}
			if w.edge.lost == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}

func (w *world) transfer(ipv6 bool) error {
	c, err := w.dial(ipv6)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.Copy(c, bulkData(1)); err != nil {
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
	if up != bulkSum(1) || [32]byte(h.Sum(nil)) != bulkSum(2) {
		return errors.New("sums differ")
	}
	return nil
}

// There is no listener: the client gets a reset.
func TestRefused(t *testing.T) {
	each(t, options{}, nil, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want a reset; %v", err, w.counters())
		}
	})
}

// A RST of either side reaches the other, and ends the entry.
func TestResets(t *testing.T) {
	got := make(chan error, 8)
	each(t, options{}, func(c *net.TCPConn) {
		defer c.Close()
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			return
		}
		if b[0] == 's' {
			_ = c.SetLinger(0)
			return
		}
		_, _ = c.Write(b)
		_, err := c.Read(b)
		got <- err
	}, func(t *testing.T, w *world, ipv6 bool) {
		before := w.counter("split_closed")
		b := make([]byte, 1)
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("c"))
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		_ = c.SetLinger(0)
		c.Close()
		if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server got %v, want a reset", err)
		}
		c, err = w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("s"))
		if _, err := c.Read(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client got %v, want a reset", err)
		}
		if n := w.counter("split_closed") - before; n != 2 {
			t.Errorf("%d entries were closed, want 2", n)
		}
	})
}

// The same client port repeatedly, whichever side closes first: into TIME-WAIT of the
// server, and with the previous connection's entry still in the table.
func TestPortReuse(t *testing.T) {
	each(t, options{}, harness.CloseFirst, func(t *testing.T, w *world, ipv6 bool) {
		for i := range 40 {
			who := []byte{harness.ClientCloses, harness.ServerCloses}[i%2]
			if err := harness.Reuse(w.Client, netip.AddrPortFrom(w.ServerAddr(ipv6), port), 40000, who); err != nil {
				t.Fatalf("connection %d, closed by %c: %v; %v", i, who, err, w.counters())
			}
		}
	})
}

// A first request of several full segments: what the edge cannot verify (the cookie
// is bound to the first number) comes as probes, tagged and still no longer than the
// MTU, and none of it waits for a retransmission.
func TestFirstRequestAtFullMSS(t *testing.T) {
	each(t, options{}, echo, func(t *testing.T, w *world, ipv6 bool) {
		request := bytes.Repeat([]byte("tidegate"), 1000)
		w.promptly(t, "a long request", func() {
			c, err := w.dial(ipv6)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(request))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, request) {
				t.Fatalf("%v; %v", err, w.counters())
			}
		})
	})
}
