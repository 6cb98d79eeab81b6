// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	harness "tidegate/test/world"
)

// Options of SYNs as Linux orders them, without and with timestamps.
var (
	common      = []byte{2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7}
	timestamped = []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}
)

// A proxy drops the SYNs of sources in its lists, on either path and under each kind of strategy; whoever was verified before, too.
func TestLists(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache", "auth-full"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			list := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			list("deny", "203.0.113.0/24\n")
			list("allow", "")
			w.serve(echo)
			config := w.config(strategy, "deny_list: deny", "allow_list: allow")
			b := w.start(config)
			var client []netip.Addr
			for _, ipv6 := range families() {
				_ = w.ping(ipv6) // auth-full resets the first connection of a source, which is then verified
				c, err := w.dial(ipv6)
				if err != nil {
					t.Fatal(err)
				}
				client = append(client, c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr())
				c.Close()
			}
			both := fmt.Sprintf("%s\n%s\n", client[0], client[1])
			list("deny", both)
			b.Reload(config, "msg=reloaded")
			syns, counted := harness.NewSYNs(t, w.ClientPort, w.LegitPort), w.counters()
			for i, ipv6 := range families() {
				for n, options := range [][]byte{common, timestamped, {1, 1, 1, 2, 4, 5, 180, 0}} { // two of the fast path, one of the slow path
					from := netip.AddrPortFrom(client[i], uint16(5001+n))
					syns.Send(from, w.ServiceAddr(ipv6, port), options)
				}
			}
			w.await("the SYNs are dropped", func() bool { return w.counters()["drop_denied"] == 6 })
			for _, answer := range []string{"cookie_sent", "challenge_sent", "cache_kept", "forward_white"} {
				if now := w.counters()[answer]; now != counted[answer] {
					t.Errorf("%s: %d, before %d: a denied source was served", answer, now, counted[answer])
				}
			}
			list("deny", "0.0.0.0/0\n::/0\n")
			list("allow", both)
			b.Reload(config, "msg=reloaded")
			for _, ipv6 := range families() {
				if err := w.ping(ipv6); err != nil {
					t.Errorf("allowed: %v", err)
				}
			}
		})
	}
}
