// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// connectionsOf counts the sockets of a port in the server's namespace that are connections and not in TIME-WAIT, by state as in
// /proc/net/tcp.
func (w *world) connectionsOf(port uint16) (states []string) {
	w.t.Helper()
	w.must(w.Server.Do(func() error {
		for _, file := range []string{"tcp", "tcp6"} {
			f, err := os.Open("/proc/thread-self/net/" + file)
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			defer f.Close()
			for s := bufio.NewScanner(f); s.Scan(); {
				col := strings.Fields(s.Text())
				if len(col) > 3 && strings.HasSuffix(col[1], fmt.Sprintf(":%04X", port)) && col[3] != "0A" && col[3] != "06" {
					states = append(states, strings.Join(col[1:5], " "))
				}
			}
		}
		return nil
	}))
	return states
}

const noSYNACKs = "table inet o { chain out { type filter hook output priority 0; tcp sport { 80, 82 } tcp flags & (syn|ack) == syn|ack drop; }; }"

// The SYN-ACK that completes a translated connection may be a retransmission by the stack's timer: where the server speaks
// first, nothing else triggers one.
func TestTranslatedBySecondSYNACK(t *testing.T) {
	w := newWorld(t)
	w.bannerServer()
	w.start(w.webConfig(bannerPort, "takeover: translate"))
	w.nft(w.Server, noSYNACKs)
	greetings := make(chan error)
	for i, ipv6 := range families() {
		go func() { greetings <- w.greet(ipv6) }()
		w.await("the SYN at the stack", func() bool { return len(w.connectionsOf(bannerPort)) == i+1 })
	}
	w.nft(w.Server, "flush ruleset")
	for range families() {
		w.must(<-greetings)
	}
	n := uint64(len(families()))
	w.wantCounters(map[string]uint64{"split_opened": n, "split_ready": n, "connected": n})
}

// A client sends a request and disappears before the stack's SYN-ACK arrives. Its RST removes the gate's state, although its number is
// beyond the data that the stack has not seen: otherwise the SYN-ACK would complete a connection whose client is gone, and
// leave the server waiting for a request until it times out.
func TestTranslatedWhoGaveUpLeaveNothing(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort, "takeover: translate"))
	w.mustPingNew(1)
	w.await("no connection", func() bool { return len(w.connectionsOf(webPort)) == 0 })
	w.nft(w.Server, noSYNACKs)
	for i, ipv6 := range families() {
		c, err := harness.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(ipv6), webPort))
		w.must(err)
		_, err = c.Write([]byte("a request"))
		w.must(err)
		w.await("the SYN at the stack", func() bool { return len(w.connectionsOf(webPort)) == i+1 })
		w.must(c.SetLinger(0))
		w.must(c.Close())
	}
	w.nft(w.Server, "flush ruleset") // the stack's next SYN-ACK passes
	w.await("the end of all that the stack began", func() bool { return len(w.connectionsOf(webPort)) == 0 })
	if c, n := w.counters(), uint64(len(families())); c["split_opened"] != 2*n || c["split_ready"] != n {
		t.Errorf("%d opened, %d ready; want %d and %d", c["split_opened"], c["split_ready"], 2*n, n)
	}
}
