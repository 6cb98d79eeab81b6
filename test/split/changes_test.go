// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

// greetAndEcho speaks first, and then echoes.
func greetAndEcho(c *net.TCPConn) {
	if _, err := io.WriteString(c, greeting); err == nil {
		echo(c)
	}
}

// greeted connects (from a port; 0: any) and has a word echoed, which it sends before (eager) or after the server has spoken.
func (w *place) greeted(ipv6 bool, from uint16, eager bool) error {
	c, err := w.dial(ipv6, from)
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

// The ports of visitors: so many that none is used twice while the kernel's record of it matters.
const firstClientPort, clientPorts = 20000, 45000

// visitors are clients that connect one after another, all the time.
type visitors struct {
	w     *world
	stop  chan struct{}
	wg    sync.WaitGroup
	epoch atomic.Uint64 // odd: nobody listens, and a client may be refused
	done  atomic.Uint64
	sent  atomic.Uint64 // refused, as they may be
	ports atomic.Uint32

	forgotten *harness.Forgotten
	mu        sync.Mutex
	failures  []failure
	byKernel  int // failures that a kernel has without a gate, too
}

// failure is a client that was not served and not refused.
type failure struct {
	what string
	port uint16
	err  error
}

func (w *world) visit() *visitors {
	w.sysctl(w.place.Client, "net.ipv4.tcp_max_tw_buckets", "0") // its ports do not run out
	v := &visitors{w: w, stop: make(chan struct{}), forgotten: harness.WatchForgotten(w.t, w.place.Server)}
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
		from := firstClientPort + v.ports.Add(1)%clientPorts
		epoch := v.epoch.Load()
		err := v.w.greeted(ipv6, uint16(from), eager)
		switch {
		case err == nil:
			v.done.Add(1)
		case epoch%2 == 1 || v.epoch.Load() != epoch:
			v.sent.Add(1)
		default:
			v.mu.Lock()
			v.failures = append(v.failures, failure{fmt.Sprintf("%s, eager %t", familyName(ipv6), eager), uint16(from), err})
			v.mu.Unlock()
		}
	}
}

// more waits until n more clients have been served, or sent away.
func (v *visitors) more(after string, n uint64, count *atomic.Uint64) {
	v.w.t.Helper()
	defer v.judge(after) // also if the wait fails
	target := count.Load() + n
	v.w.await(fmt.Sprintf("%d clients after: %s", n, after), func() bool { return count.Load() >= target })
}

// judge reports those that have failed. The kernel's own loss is known by the connection, not by a rate: a reset, and the kernel
// has forgotten the connection of this port (TestClosingAtTheFinalACK).
func (v *visitors) judge(after string) {
	v.w.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.failures {
		if errors.Is(f.err, unix.ECONNRESET) && v.w.recorded(v.forgotten, f.port) {
			v.byKernel++
			v.w.t.Logf("after: %s: the kernel has forgotten a client: %s: %v", after, f.what, f.err)
			continue
		}
		v.w.t.Errorf("after: %s: of %d that failed: %s: %v", after, len(v.failures), f.what, f.err)
		break // one says enough
	}
	v.failures = nil
}

// recorded reports whether the kernel has forgotten a connection that was reset: the client may see that a moment before the record.
func (w *place) recorded(f *harness.Forgotten, port uint16) bool {
	for end := time.Now().Add(time.Second); !f.Has(port); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
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
// comes, and the kernel's SYN cookies are switched off and on. A client may be refused while nobody listens; every other is served,
// but for those that a closing listener costs without a gate, too, as the control shows, which has none.
func TestChangesThroughAnEdgeCostNoClient(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *world{"adopt": refusing["adopt"], "auto": newAuto, "translate": newTranslated,
		withoutGate: func(t *testing.T) *world { return newWorld(t, false) }} {
		t.Run(name, func(t *testing.T) { open(t).change(name) })
	}
}

const withoutGate = "no gate"

// change changes the listener of a world of this name, with visitors.
func (w *world) change(name string) {
	const each = 40
	w.sysctl(w.place.Server, "net.ipv4.tcp_migrate_req", "1") // what waits at the first listener goes to the second
	listen := func(mptcp bool) net.Listener {
		return harness.Server{MPTCP: mptcp, Shared: true}.Serve(w.t, w.place.Server, fmt.Sprintf(":%d", port), greetAndEcho)
	}
	l := listen(false)
	if name != withoutGate {
		w.startBoth()
		defer func() {
			if w.t.Failed() {
				w.t.Logf("edge %v; server %v", nonZero(w.Edge.counters()), nonZero(w.server.counters()))
			}
		}()
	}
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
	adopts := name == "adopt" || name == "auto"
	for range 2 {
		v.epoch.Add(1)
		l.Close()
		v.more("the listener goes", 8, &v.sent)
		w.await("the server to know that nobody listens", func() bool { return !adopts || w.server.knowsNobody(w.address(false, port).Addr()) })
		l = listen(false)
		v.epoch.Add(1)
		v.more("the listener comes", each, &v.done)
	}
	v.end()
	v.judge("the end")
	w.t.Logf("%d served, %d refused while nobody listened, %d forgotten by the kernel", v.done.Load(), v.sent.Load(), v.byKernel)
}
