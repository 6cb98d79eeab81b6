// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// soaking reports whether these tests run at full size: `make soak`.
func soaking() bool { return os.Getenv("TIDEGATE_SOAK") != "" }

// floodSYNs keeps a service under spoofed SYNs until the test ends, and returns when the first are on their way.
func (w *world) floodSYNs(ipv6 bool, service uint16, rate load.Rate) {
	w.t.Helper()
	f, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.ServiceAddr(ipv6, service), CPU: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan error, 1)
	if _, err := f.Burst(64); err != nil { // fails if it makes no frame; Run may begin after its clients
		w.t.Fatal(err)
	}
	go func() {
		ctx, cancel := contextUntil(stop)
		defer cancel()
		_, err := f.Run(ctx, rate)
		done <- err
	}()
	w.t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		f.Close()
	})
}

// Checksums are right after loss and reordering on the clients' side, under flood: SACK
// blocks, retransmissions and out-of-order data are translated.
func TestBulkOverImpairedLink(t *testing.T) {
	size, limit := int64(64<<20), 3*time.Minute
	if soaking() {
		size, limit = 1<<30, 10*time.Minute
	}
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			w.serveFor(limit, serveSized(size))
			w.start(w.config("cookie"))
			far, err := rig.NewImpairedHost(w.Topology, w.tag(), rig.Impairment{Seed: 1, Loss: 0.01, Reorder: 0.01, Depth: 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := far.Close(); err != nil {
					t.Error(err)
				}
			})
			w.acquaint(ipv6)
			w.floodSYNs(ipv6, port, 20000)
			c, err := w.dialFrom(far.NS, ipv6)
			if err != nil {
				t.Fatal(err)
			}
			wantAllOptions(t, c)
			_ = c.SetDeadline(time.Now().Add(limit))
			begin := time.Now()
			if err := transferOver(c, size); err != nil {
				t.Error(err)
			}
			took := time.Since(begin)
			t.Logf("%d MiB each way in %s; %d packets lost, %d reordered", size>>20, took.Round(time.Millisecond), far.Lost.Load(), far.Moved.Load())
			// A segment carries 1,460 bytes at most; less than half of the expected losses
			// would mean that the link did not do its work.
			if least := uint64(size/1460) / 100; far.Lost.Load() < least/2 || far.Moved.Load() < least/2 {
				t.Errorf("%d packets lost and %d reordered; want at least %d", far.Lost.Load(), far.Moved.Load(), least/2)
			}
		})
	}
}

func serveSized(size int64) func(*net.TCPConn) {
	return func(c *net.TCPConn) { serveBulk(c, size) }
}

func contextUntil(stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// tag distinguishes the namespaces of this world from those of others.
func (w *world) tag() string { return w.Instance[strings.LastIndex(w.Instance, "-"):] }
