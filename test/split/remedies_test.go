// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/plane"
)

// newTaggedFleet is a fleet of two edges in protocol tagged, bypassed by answers, before a
// server that translates. With sync the edges share what they learn.
func newTaggedFleet(t *testing.T, sync bool, unknownRate string) *fleet {
	t.Helper()
	f := newFleet(t, 2, true)
	if err := f.YieldServer(); err != nil {
		t.Fatal(err)
	}
	var list []string
	for i, e := range f.edges {
		v4, v6 := f.EdgeAddrs(i)
		list = append(list, fmt.Sprintf("%q", fmt.Sprintf("%d %s %s", i+1, v4, v6)))
		lines := []string{"protocol: tagged", fmt.Sprintf("edge_id: %d", i+1), "learning: 0s", "unknown_rate: " + unknownRate}
		if sync {
			lines = append(lines, fmt.Sprintf("peers: [%s]", f.PeerAddr(1-i)))
		}
		e.configure("always", lines...)
	}
	f.server.top = "role: server\ninterfaces: [" + strings.Join(f.TranslatorPorts(), ", ") + "]\n"
	f.server.configure("always", "protocol: tagged", "takeover: translate", "edges: ["+strings.Join(list, ", ")+"]")
	return f
}

// established is a connection that only edge 0 has seen.
func (f *fleet) established() io.ReadWriter {
	f.place.t.Helper()
	if err := f.Through(0); err != nil {
		f.place.t.Fatal(err)
	}
	c := f.open(false)
	f.still(c, "before the route moves")
	if n := f.edges[1].counters(); n["edge_known"]+n["cookie_sent"]+n["tag_probe"] != 0 {
		f.place.t.Fatalf("edge 1 has seen something: %v", nonZero(n))
	}
	return c
}

// attack sends ACKs or RSTs from random sources, half a second's worth, through the
// edge of the current route.
func (f *fleet) attack(flags load.TCPFlags, n int) {
	f.place.t.Helper()
	flood, err := load.NewFlood(f.AttackerPort, f.FloodPort, load.FloodOptions{Target: f.address(false, port), Flags: flags, CPU: -1})
	if err != nil {
		f.place.t.Fatal(err)
	}
	defer flood.Close()
	if _, err := flood.Burst(n); err != nil {
		f.place.t.Fatal(err)
	}
}

// The paper's two remedies for a route that moves to an edge which has never seen the
// connection, each alone and under floods of ACKs and RSTs; and neither, to show
// what they are for.
func TestRemedies(t *testing.T) {
	const flood = 20000
	for _, c := range []struct {
		name, rate string
		sync       bool
	}{{"none", "0", false}, {"probes", "2000", false}, {"synchronisation", "0", true}} {
		t.Run(c.name, func(t *testing.T) {
			f := newTaggedFleet(t, c.sync, c.rate)
			f.serve(echo)
			f.startAll()
			if err := f.WatchServer(f.server.instance); err != nil {
				t.Fatal(err)
			}
			conn := f.established()
			if c.sync {
				f.await("edge 1 to be told", func() bool { return f.knows(1) })
			}
			if err := f.Through(1); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "moved"); err != nil {
				t.Fatal(err)
			}
			if c.name == "none" {
				f.await("edge 1 to drop it", func() bool { return f.edges[1].counters()["drop_ack"] > 0 })
				if err := f.Through(0); err != nil {
					t.Fatal(err)
				}
			}
			word := make([]byte, len("moved"))
			if _, err := io.ReadFull(conn, word); err != nil || string(word) != "moved" {
				t.Fatalf("%q, %v; edge 1 %v; server %v", word, err, nonZero(f.edges[1].counters()), nonZero(f.server.counters()))
			}
			one, server := f.edges[1].counters(), f.server.counters()
			switch c.name {
			case "probes":
				if one["tag_probe"] == 0 || server["probe_known"] == 0 || server["confirm_sent"] == 0 {
					t.Errorf("edge 1 %v; server %v", nonZero(one), nonZero(server))
				}
				f.await("edge 1 to be told by the server", func() bool { return f.edges[1].counters()["confirm_taken"] > 0 })
			case "synchronisation":
				if one["edge_known"] == 0 || one["drop_ack"]+one["tag_probe"] != 0 {
					t.Errorf("edge 1 %v", nonZero(one))
				}
			}
			for _, flags := range []load.TCPFlags{load.FlagACK, load.FlagRST} {
				seen, err := f.Seen()
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				f.attack(flags, flood)
				if _, err := io.WriteString(conn, "still"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(conn, word); err != nil || string(word) != "still" {
					t.Errorf("after a flood of flags %#x: %q, %v", flags, word, err)
				}
				after, err := f.Seen()
				if err != nil {
					t.Fatal(err)
				}
				passed, most := after.Attack-seen.Attack, uint64(0)
				if c.name == "probes" { // the allowance, and its burst of a tenth of a second
					most = uint64(2000*time.Since(begin).Seconds()) + 202
				}
				if passed > most {
					t.Errorf("flags %#x: %d packets of the flood came to the server, at most %d may; edge 1 %v", flags, passed, most, nonZero(f.edges[1].counters()))
				}
			}
			if dropped := f.sum("drop_ack") + f.sum("drop_rst"); dropped < flood {
				t.Errorf("%d packets of the floods were dropped at the edges: they have not been there", dropped)
			}
		})
	}
}

// knows reports whether an edge's filter holds anything in any generation.
func (f *fleet) knows(edge int) bool {
	for _, g := range f.edges[edge].status().Edge.Generations {
		if g.Fill > 0 {
			return true
		}
	}
	return false
}

// Edges that ran without peers, each with its own filter key, get peers by a restart: they agree on one key, the
// connections that they knew survive, and each learns what the other learns.
func TestPeersByRestart(t *testing.T) {
	f := newTaggedFleet(t, false, "0")
	f.serve(echo)
	f.startAll()
	old := f.established().(*net.TCPConn)
	for i, e := range f.edges {
		e.stop()
		e.config = strings.Replace(e.config, fmt.Sprintf("edge_id: %d\n", i+1), fmt.Sprintf("edge_id: %d\npeers: [%s]\n", i+1, f.PeerAddr(1-i)), 1)
		e.start()
		f.still(old, "edge restarted with peers")
	}
	keyOf := func(n *node) plane.BloomKey {
		s, _, err := plane.ReadEdge(n.pins())
		if err != nil {
			t.Fatal(err)
		}
		return s.BloomKey.K
	}
	f.place.await("one key of both filters", func() bool { return keyOf(f.edges[0]) == keyOf(f.edges[1]) })
	f.still(old, "with one key")
	fresh := f.open(false) // edge 1 has an empty filter, and edge 0 announces what is new
	f.place.await("edge 1 to be told", func() bool { return f.knows(1) })
	if err := f.Through(1); err != nil {
		t.Fatal(err)
	}
	f.still(fresh, "the route has moved")
	f.still(old, "the route has moved")
}
