// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

// reconnect makes a connection from a port, makes it vanish, and makes another from the same port;
// it returns how long the second took until its first word was echoed.
func (w *world) reconnect(ipv6 bool, localPort uint16) (time.Duration, error) {
	old, err := w.dial(ipv6, localPort)
	if err != nil {
		return 0, fmt.Errorf("first connection: %w", err)
	}
	if err := say(old, "before"); err != nil {
		return 0, fmt.Errorf("first connection: %w", err)
	}
	vanish(w.place.t, old)
	begin := time.Now()
	c, err := w.dial(ipv6, localPort)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(begin.Add(5 * time.Second))
	if err := say(c, "after"); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// A client that has lost its state reconnects from the same port: the server still has the
// previous connection, and the edge has forwarded the new one's ACK. It is served at once,
// whether the edge still knows the flow (no tag) or has forgotten it, with or without a flood.
func TestHalfOpen(t *testing.T) {
	const most = 10 * time.Second // a SYN may be lost on a loaded machine; with the bug, the client was never served
	for _, protocol := range []string{"plain", "tagged"} {
		t.Run(protocol, func(t *testing.T) {
			w := newTagged(t, nil, nil)
			if protocol == "plain" {
				w.Edge.configure("always", "learning: 0s")
				w.server.configure("always", "takeover: translate")
			}
			w.serve(echo)
			w.startBoth()
			for _, flooded := range []bool{false, true} {
				stop, ports := func() {}, uint16(41000)
				if flooded {
					ports = 42000
					stop = w.floodMeanwhile(load.FlagACK)
				}
				for _, ipv6 := range families() {
					for i := range 5 {
						took, err := w.reconnect(ipv6, ports+uint16(i))
						if err != nil || took > most {
							t.Errorf("%s, flooded %v, %d: served after %v, %v; server %v", familyName(ipv6), flooded, i, took, err, nonZero(w.server.counters()))
						}
					}
				}
				stop()
			}
			w.server.wantCounters(map[string]uint64{"tag_forged": 0, "split_full": 0})
		})
	}
}

// The same for a client without timestamps, whose second cookie is too weak to end a live connection: the
// server's stack challenges its SYN (RFC 5961), and the client's own RST ends the old connection.
func TestHalfOpenWithoutTimestamps(t *testing.T) {
	for _, protocol := range []string{"plain", "tagged", "smartcookie", "adopt"} {
		t.Run(protocol, func(t *testing.T) {
			var w *world
			switch protocol {
			case "tagged":
				w = newTagged(t, nil, nil)
			case "adopt":
				w = newSplit(t, false, nil, nil)
			case "smartcookie":
				w = newSplit(t, false, []string{"cookie_layout: smartcookie"}, []string{"cookie_layout: smartcookie", "takeover: translate"})
			default:
				w = newSplit(t, false, nil, []string{"takeover: translate"})
			}
			w.sysctl(w.place.Client, "net.ipv4.tcp_timestamps", "0")
			w.serve(echoLong)
			w.startBoth()
			for _, ipv6 := range families() {
				for i := range 3 {
					took, err := w.reconnect(ipv6, 43000+uint16(i))
					if err != nil {
						t.Errorf("%s, %d: %v; edge %v; server %v", familyName(ipv6), i, err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
					} else {
						t.Logf("%s, %d: served after %v", familyName(ipv6), i, took)
					}
				}
			}
			w.server.wantCounters(map[string]uint64{"tag_forged": 0, "split_full": 0})
		})
	}
}

// floodMeanwhile attacks the service, in bursts, until it is told to stop.
func (w *world) floodMeanwhile(flags load.TCPFlags) (stop func()) {
	w.place.t.Helper()
	flood, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.address(false, port), Flags: flags, CPU: -1})
	if err != nil {
		w.place.t.Fatal(err)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond): // some 200,000 a second
				_, _ = flood.Burst(2000)
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		flood.Close()
	}
}
