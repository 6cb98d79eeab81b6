// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// synacksOf connects to a server that speaks first, while the client's side loses the first packet that matches, and
// returns when the client's side saw SYN-ACKs before the greeting.
func (w *world) synacksOf(hook, match string) (at []time.Duration) {
	w.t.Helper()
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		w.t.Fatal(err)
	}
	defer tap.Close()
	harness.Lose(w.t, w.Client, hook, match)
	defer harness.NFT(w.t, w.Client, "delete table inet loss\n")
	begun := time.Now()
	greeted := make(chan error, 1)
	go func() {
		c, err := w.dial(false, 0)
		if err == nil {
			_ = c.SetDeadline(begun.Add(patience))
			_, err = io.ReadAtLeast(c, make([]byte, len(greeting)), len(greeting))
			c.Close()
		}
		greeted <- err
	}()
	tap.Next(begun.Add(patience), func(s load.Segment) bool {
		if s.Src.Port() != port {
			return false
		}
		// A SYN and a SYN-ACK that were lost are sent again at the same time, after a second: two answers then count as one.
		now := time.Since(begun)
		if s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK && (len(at) == 0 || now-at[len(at)-1] > 400*time.Millisecond) {
			at = append(at, now)
		}
		return len(s.Payload) > 0
	})
	if err := <-greeted; err != nil {
		w.t.Errorf("%s is lost: the client was not greeted: %v; edge %v; server %v", match, err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
	}
	return at
}

const greeting = "220 ready\r\n"

// greet speaks first.
func greet(c *net.TCPConn) {
	_, err := io.WriteString(c, greeting)
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return
	}
}

// Behind an edge in mode auto, the default, while nothing attacks, the kernel of a server that adopts remembers half-open clients. A lost
// final ACK of a client to which the server speaks first, and a lost SYN-ACK, heal as without an edge: by as many SYN-ACKs, at the same intervals.
func TestLossesHealAtAQuietEdge(t *testing.T) {
	w := newSplit(t, false, nil, nil)
	w.serve(greet)
	losses := [][2]string{{"output", "tcp flags == ack"}, {"input", "tcp flags & (syn | ack) == (syn | ack)"}}
	var bare [][]time.Duration
	for _, loss := range losses {
		bare = append(bare, w.synacksOf(loss[0], loss[1]))
	}
	for _, n := range []*node{w.Edge, w.server} {
		n.config = strings.Replace(n.config, "mode: always", "mode: auto", 1)
	}
	w.startBoth()
	for i, loss := range losses {
		want, got := bare[i], w.synacksOf(loss[0], loss[1])
		if len(got) != len(want) || len(got) < 2 {
			t.Fatalf("%s is lost: SYN-ACKs at %v, without an edge at %v", loss[1], got, want)
		}
		for n := 1; n < len(got); n++ {
			if apart, want := got[n]-got[n-1], want[n]-want[n-1]; apart < want/2 || apart > 2*want {
				t.Errorf("%s is lost: SYN-ACKs at %v, without an edge at %v", loss[1], got, bare[i])
			}
		}
	}
	if c := w.Edge.counters(); c["cookie_sent"] != 0 || c["syn"] == 0 {
		t.Errorf("the edge was not quiet: %v", nonZero(c))
	}
}
