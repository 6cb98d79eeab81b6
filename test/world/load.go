// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load is clients of an echo service: some that stay connected and send all the time, and
// others that connect one after another. It records every failure.
type Load struct {
	t    *testing.T
	stop chan struct{}
	wg   sync.WaitGroup

	New, Words atomic.Uint64 // connections made, used and closed; words echoed on those that stay open
	Slowest    atomic.Int64  // nanoseconds of a new connection and its word

	mu     sync.Mutex
	failed []string
}

// answerIn is when a missing echo or connection counts as lost.
const answerIn = 5 * time.Second

// StartLoad connects `live` clients that stay, and starts those that come and go.
func StartLoad(t *testing.T, live int, dial func() (*net.TCPConn, error)) *Load {
	t.Helper()
	l := &Load{t: t, stop: make(chan struct{})}
	var staying []*net.TCPConn
	for range live {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := spoken(c); err != nil {
			t.Fatal(err)
		}
		staying = append(staying, c)
	}
	for i, c := range staying {
		l.each(max(20*time.Millisecond, time.Duration(live)*time.Millisecond), fmt.Sprintf("live connection %d", i), func() error {
			defer l.Words.Add(1)
			return spoken(c)
		})
	}
	l.each(5*time.Millisecond, "new connection", func() error {
		begin := time.Now()
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := spoken(c); err != nil {
			return err
		}
		_ = c.SetLinger(0) // or ports would run out in TIME-WAIT
		l.New.Add(1)
		l.Slowest.Store(max(l.Slowest.Load(), int64(time.Since(begin))))
		return nil
	})
	t.Cleanup(func() {
		l.halt()
		for _, c := range staying {
			c.Close()
		}
	})
	return l
}

func (l *Load) each(pause time.Duration, name string, do func() error) {
	l.wg.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(pause):
			}
			if err := do(); err != nil {
				l.mu.Lock()
				l.failed = append(l.failed, fmt.Sprintf("%s: %v", name, err))
				l.mu.Unlock()
				if name != "new connection" {
					return
				}
			}
		}
	})
}

// More waits until n further connections have come and gone, and each one that stays has had a word echoed.
func (l *Load) More(n uint64) {
	l.t.Helper()
	connections, words := l.New.Load()+n, l.Words.Load()+100
	Await(l.t, fmt.Sprintf("%d more connections", n), 20*time.Second, 5*time.Millisecond, func() bool {
		return l.New.Load() >= connections && l.Words.Load() >= words || len(l.Failures()) > 0
	})
}

// Failures so far.
func (l *Load) Failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.failed...)
}

func (l *Load) halt() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
}

// End stops the clients; any failure fails the test.
func (l *Load) End(what string) {
	l.t.Helper()
	l.halt()
	if failed := l.Failures(); len(failed) > 0 {
		l.t.Errorf("%s: %d failures beside %d new connections and %d words; the first: %q", what, len(failed), l.New.Load(), l.Words.Load(), failed[:min(len(failed), 5)])
		return
	}
	l.t.Logf("%s: %d new connections, the slowest in %v, and %d words; none failed", what, l.New.Load(), time.Duration(l.Slowest.Load()).Round(time.Millisecond), l.Words.Load())
}

// spoken has a word echoed in time.
func spoken(c *net.TCPConn) error {
	_ = c.SetDeadline(time.Now().Add(answerIn * slowness))
	return Word(c)
}
