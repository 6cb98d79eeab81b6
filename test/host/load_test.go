// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is clients that connect all the time, one connection after another, and
// some that stay. It records every failure.
type crowd struct {
	w    *world
	stop chan struct{}
	wg   sync.WaitGroup
	done atomic.Uint64 // connections made, used and closed

	mu       sync.Mutex
	failures []string
}

// loadPause leaves two cores idle time for other work.
const loadPause = time.Millisecond

func (w *world) startLoad() *crowd {
	w.t.Helper()
	// No TIME-WAIT at the client, so that its ports do not run out.
	w.sysctl(w.Client, "net.ipv4.tcp_max_tw_buckets", "0")
	l := &crowd{w: w, stop: make(chan struct{})}
	for _, ipv6 := range families() {
		l.each(func() error { return w.pingNew(ipv6, webPort) }, familyName(ipv6)+", new connection", &l.done)
		stays := w.mustDial(ipv6, webPort)
		l.each(stays.ping, familyName(ipv6)+", old connection", new(atomic.Uint64))
	}
	w.t.Cleanup(l.end)
	return l
}

func (l *crowd) each(do func() error, name string, count *atomic.Uint64) {
	l.wg.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(loadPause):
			}
			if err := do(); err != nil {
				l.mu.Lock()
				l.failures = append(l.failures, fmt.Sprintf("%s: %v", name, err))
				l.mu.Unlock()
				return
			}
			count.Add(1)
		}
	})
}

// more waits until n further connections have been made.
func (l *crowd) more(n uint64) {
	l.w.t.Helper()
	target := l.done.Load() + n
	l.w.await(fmt.Sprintf("%d more connections", n), func() bool { return l.done.Load() >= target || l.failed() })
	l.noFailure()
}

func (l *crowd) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failures) > 0
}

func (l *crowd) noFailure() {
	l.w.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) > 0 {
		l.w.t.Fatalf("after %d connections: %q", l.done.Load(), l.failures)
	}
}

// end stops the clients and waits for them.
func (l *crowd) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
}
