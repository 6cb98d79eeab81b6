// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/lab/load"
)

// A server that answers SYNs drops those of sources in its lists if no edge has answered them, and only those: through the edge,
// which has no lists, such a client is served.
func TestListsOfServer(t *testing.T) {
	w := newSplit(t, false, nil, []string{"without_edge: answer", "deny_list: deny", "allow_list: allow"})
	list := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list("deny", "203.0.113.0/24\n")
	list("allow", "")
	w.serve(echo)
	w.startBoth()
	var client [2]netip.Addr
	for i, ipv6 := range []bool{false, true} {
		client[i] = w.open(ipv6).LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr()
	}
	list("deny", fmt.Sprintf("%s\n%s\n", client[0], client[1]))
	w.server.reload()
	w.pingEach("denied, through the edge")
	w.server.wantCounters(map[string]uint64{"drop_denied": 0})

	w.Edge.off()
	standIn, err := w.WithoutBox()
	if err != nil {
		t.Fatal(err)
	}
	defer standIn.Close()
	sent := w.server.counters()["cookie_sent"]
	syn := load.Segment{Src: netip.AddrPortFrom(client[0], 5001), Dst: w.address(false, port), Flags: load.FlagSYN, Seq: 1, Window: 64000, Options: []byte{2, 4, 5, 180}}
	if err := load.SendSegment(w.Client, syn); err != nil {
		t.Fatal(err)
	}
	w.await("the SYN is dropped", func() bool { return w.server.counters()["drop_denied"] == 1 })
	if now := w.server.counters()["cookie_sent"]; now != sent {
		t.Error("a denied source was answered")
	}

	// An exception from a wider denial is served, by a cookie.
	list("deny", "0.0.0.0/0\n::/0\n")
	list("allow", fmt.Sprintf("%s\n%s\n", client[0], client[1]))
	w.server.reload()
	w.pingEach("allowed")
	if now := w.server.counters()["cookie_sent"]; now == sent {
		t.Error("an allowed source got no cookie")
	}
	w.server.wantCounters(map[string]uint64{"drop_denied": 1})
}
