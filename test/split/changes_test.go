// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// greetAndEcho speaks first, and then echoes.
func greetAndEcho(c *net.TCPConn) {
	if _, err := io.WriteString(c, greeting); err == nil {
		echo(c)
	}
}

// greeted connects and has a word echoed, which it sends before (eager) or after the server has spoken.
func (w *place) greeted(ipv6, eager bool) error {
	c, err := w.dial(ipv6, 0)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if eager {
		return sayTo(c, "tidegate?", greeting+"tidegate?")
	}
	if err := sayTo(c, "", greeting); err != nil {
		return err
	}
	return say(c, "tidegate?")
}

// sayTo sends a word and expects an answer.
func sayTo(c *net.TCPConn, word, answer string) error {
	if _, err := io.WriteString(c, word); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	got := make([]byte, len(answer))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != answer {
		return fmt.Errorf("got %q, %w", got[:n], err)
	}
	return nil
}

// visitors are clients that connect one after another, all the time.
type visitors struct {
	w     *world
	stop  chan struct{}
	wg    sync.WaitGroup
	epoch atomic.Uint64 // odd: nobody listens, and a client may be refused
	done  atomic.Uint64
	sent  atomic.Uint64 // refused, as they may be

	mu       sync.Mutex
	failures []string
}

func (w *world) visit() *visitors {
	w.sysctl(w.place.Client, "net.ipv4.tcp_max_tw_buckets", "0") // its ports do not run out
	v := &visitors{w: w, stop: make(chan struct{})}
	for _, ipv6 := range families() {
		for _, eager := range []bool{true, false} {
			v.wg.Go(func() { v.one(ipv6, eager) })
		}
	}
	w.t.Cleanup(v.end)
	return v
}

func (v *visitors) one(ipv6, eager bool) {
	for {
		select {
		case <-v.stop:
			return
		case <-time.After(time.Millisecond): // leaves two cores idle time for other work
		}
		epoch := v.epoch.Load()
		err := v.w.greeted(ipv6, eager)
		switch {
		case err == nil:
			v.done.Add(1)
		case epoch%2 == 1 || v.epoch.Load() != epoch:
			v.sent.Add(1)
		default:
			v.mu.Lock()
			v.failures = append(v.failures, fmt.Sprintf("%s, eager %t: %v", familyName(ipv6), eager, err))
			v.mu.Unlock()
		}
	}
}

// more waits until n more clients have been served, or sent away.
func (v *visitors) more(after string, n uint64, count *atomic.Uint64) {
	v.w.t.Helper()
	target := count.Load() + n
	v.w.await(fmt.Sprintf("%d clients after: %s", n, after), func() bool { return count.Load() >= target })
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failures) > 0 {
		v.w.t.Errorf("after: %s: %d failed: %q; edge %v; server %v", after, len(v.failures), v.failures[0], nonZero(v.w.Edge.counters()), nonZero(v.w.server.counters()))
		v.failures = nil
	}
}

func (v *visitors) end() {
	select {
	case <-v.stop:
	default:
		close(v.stop)
	}
	v.wg.Wait()
}

// knowsNobody reports whether a server that adopts, or chooses, has noticed that nobody listens at the port.
func (n *node) knowsNobody(at netip.Addr) bool {
	if _, why := n.chosen(at, fmt.Sprint(port)); why == "nothing listens" {
		return true
	}
	services := n.status().Services
	return len(services) > 0 && services[0].Listener == "none"
}

// Clients connect through an edge all the time, some of them waiting for the server to speak, while the server's
// listener is reloaded (a second one shares the port before the first closes), becomes an MPTCP one and a plain one again, goes and
// comes, and the kernel's SYN cookies are switched off and on. A client may be refused while nobody listens; every other is served.
func TestChangesThroughAnEdgeCostNoClient(t *testing.T) {
	const each = 40
	for name, open := range map[string]func(*testing.T) *world{"adopt": refusing["adopt"], "auto": newAuto, "translate": newTranslated} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.sysctl(w.place.Server, "net.ipv4.tcp_migrate_req", "1") // what waits at the first listener goes to the second
			listen := func(mptcp bool) net.Listener {
				return harness.Server{MPTCP: mptcp, Shared: true}.Serve(t, w.place.Server, fmt.Sprintf(":%d", port), greetAndEcho)
			}
			l := listen(false)
			w.startBoth()
			v := w.visit()
			v.more("the start", each, &v.done)
			replace := func(what string, mptcp bool) {
				next := listen(mptcp)
				l.Close()
				l = next
				v.more(what, each, &v.done)
			}
			for range 2 {
				replace("a reload", false)
			}
			if name != "adopt" { // which names what it cannot adopt for, and `auto`, in log and check
				for range 2 {
					replace("MPTCP", true)
					replace("plain again", false)
				}
				for _, on := range []string{"0", "1"} {
					w.sysctl(w.place.Server, "net.ipv4.tcp_syncookies", on)
					v.more("tcp_syncookies="+on, each, &v.done)
				}
			}
			for range 2 {
				v.epoch.Add(1)
				l.Close()
				v.more("the listener goes", 8, &v.sent)
				w.await("the server to know that nobody listens", func() bool { return name == "translate" || w.server.knowsNobody(w.address(false, port).Addr()) })
				l = listen(false)
				v.epoch.Add(1)
				v.more("the listener comes", each, &v.done)
			}
		})
	}
}
