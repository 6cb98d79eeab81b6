// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"strings"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// nft replaces the rules of the server's machine.
func (w *world) nft(rules string) {
	w.t.Helper()
	harness.NFT(w.t, w.place.Server, "flush ruleset\n"+rules)
}

// The server's machine starts to translate addresses, as when Docker is installed, and stops:
// meanwhile connections are translated, afterwards adopted again, and clients notice nothing.
func TestAutoFollowsRules(t *testing.T) {
	w := newAuto(t)
	w.serve(echo)
	w.startBoth()
	for _, step := range []struct{ rules, how, why string }{
		{"", "adopt", "plain"},
		{`table inet n { chain c { type nat hook postrouting priority srcnat; oifname "nowhere0" masquerade; }; }`, "translate", "NAT"},
		{"", "adopt", "plain"},
		{"table inet f { chain i { type filter hook input priority 0; tcp flags & (fin|syn|rst|ack) != syn ct state new drop; }; }", "translate", "do not begin with a SYN"},
	} {
		w.nft(step.rules)
		changed := time.Now()
		for _, ipv6 := range families() {
			w.await(step.how+" after "+step.rules, func() bool {
				how, why := w.server.chosen(w.address(ipv6, port).Addr(), "80")
				return how == step.how && strings.Contains(why, step.why)
			})
			t.Logf("%s, %s: %v after the change", step.how, familyName(ipv6), time.Since(changed).Round(time.Millisecond))
			if err := w.ping(ipv6); err != nil {
				t.Errorf("%s: %s: %v; %v", step.rules, familyName(ipv6), err, nonZero(w.server.counters()))
			}
		}
	}
}
