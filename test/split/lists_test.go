// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// A server that answers SYNs drops those of sources in its lists if no edge has answered them, and only those: through an edge
// without lists, such a client is served.
func TestListsOfServer(t *testing.T) {
	for _, answers := range []string{"without_edge: answer", "takeover: translate"} {
		t.Run(strings.Fields(answers)[1], func(t *testing.T) {
			w := newSplit(t, false, nil, []string{answers, "deny_list: deny", "allow_list: allow"})
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
		})
	}
}

// Options of SYNs as Linux orders them, without and with timestamps.
var (
	common      = []byte{2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7}
	timestamped = []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}
)

// An edge drops the SYNs of sources in its lists, on either path, in each mode but monitor; a connection that exists goes on, and an
// exception from a wider denial is served.
func TestListsOfEdge(t *testing.T) {
	w := newSplit(t, false, []string{"deny_list: deny", "allow_list: allow"}, nil)
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
	var open []*net.TCPConn
	for i, ipv6 := range []bool{false, true} {
		c := w.open(ipv6)
		open = append(open, c)
		client[i] = c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr()
	}
	both := fmt.Sprintf("%s\n%s\n", client[0], client[1])
	list("deny", both)
	w.Edge.reload()
	syns, dropped := harness.NewSYNs(t, w.ClientPort, w.LegitPort), uint64(0)
	deny := func(what string) {
		t.Helper()
		sent := w.Edge.counters()["cookie_sent"]
		for i, ipv6 := range []bool{false, true} {
			for n, options := range [][]byte{common, timestamped, {1, 1, 1, 2, 4, 5, 180, 0}} { // two of the fast path, one of the slow path
				from := netip.AddrPortFrom(client[i], uint16(5001+dropped)+uint16(n))
				syns.Send(from, w.address(ipv6, port), options)
			}
		}
		dropped += 6
		w.await(what+": the SYNs are dropped", func() bool { return w.Edge.counters()["drop_denied"] == dropped })
		if now := w.Edge.counters()["cookie_sent"]; now != sent {
			t.Errorf("%s: a denied source was answered", what)
		}
	}
	deny("always")
	for _, c := range open { // what exists goes on
		if err := harness.Word(c); err != nil {
			t.Error(err)
		}
	}
	w.Edge.configure("auto", "deny_list: deny", "allow_list: allow")
	w.Edge.reload()
	deny("auto, and nothing is attacked")
	w.Edge.configure("monitor", "deny_list: deny", "allow_list: allow")
	w.Edge.reload()
	w.pingEach("denied, and only monitored")
	w.Edge.configure("always", "deny_list: deny", "allow_list: allow")
	list("deny", "0.0.0.0/0\n::/0\n")
	list("allow", both)
	w.Edge.reload()
	w.pingEach("allowed")
	w.Edge.wantCounters(map[string]uint64{"drop_denied": dropped})
}
