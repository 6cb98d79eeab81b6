// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
	"tidegate/test/world/natsd"
)

// synackTo is the answer to a SYN that offers everything, ECN included, with the timestamps' values blanked, which differ with time. `from` is
// no port that the client's kernel chooses: of a connection that the edge knows, it lets the SYN through.
func (w *world) synackTo(at netip.AddrPort, from uint16) load.Segment {
	w.t.Helper()
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		w.t.Fatal(err)
	}
	defer tap.Close()
	syn := load.Segment{Src: netip.AddrPortFrom(netip.MustParseAddr("198.18.2.2"), from), Dst: at, Flags: load.FlagSYN | 0xc0, Seq: 77, Window: 64000,
		Options: []byte{2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}}
	if err := load.SendSegment(w.Client, syn); err != nil {
		w.t.Fatal(err)
	}
	s, ok := tap.Next(time.Now().Add(patience), func(s load.Segment) bool { return s.Src == at && s.Dst == syn.Src && s.Flags&load.FlagSYN != 0 })
	if !ok {
		w.t.Fatalf("%v answers no SYN; edge %v; server %v", at, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
	}
	s.Options = slices.Clone(s.Options)
	if i := bytes.Index(s.Options, []byte{8, 10}); i >= 0 && i+10 <= len(s.Options) {
		clear(s.Options[i+2 : i+6])
	}
	return s
}

// fleetCommand runs `tidegate fleet`.
func (w *world) fleetCommand(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.Command(tidegate, append([]string{"fleet", "--server", fmt.Sprintf("nats://127.0.0.1:%d", natsd.Port)}, args...)...)
	var out harness.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	err := w.place.Server.Do(cmd.Run)
	return out.String(), err
}

// relay has NATS's server at an address appear on a namespace's loopback: nodes speak without encryption to servers on their machine only.
func (w *world) relay(n *rig.Namespace, server netip.Addr) {
	w.t.Helper()
	harness.Serve(w.t, n, func(c *net.TCPConn) {
		out, err := harness.Dial(n, netip.AddrPortFrom(server, natsd.Port))
		if err != nil {
			return // the node tries again
		}
		defer out.Close()
		go func() {
			_, _ = io.Copy(out, c)
			_ = out.CloseWrite()
		}()
		_, _ = io.Copy(c, out)
	}, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), natsd.Port))
}

// offering is a world of an edge and a server in one fleet, whose server has a kernel that is tuned in its own way. It returns what that kernel answers.
func (w *world) offering() (bare load.Segment) {
	w.t.Helper()
	w.sysctl(w.place.Server, "net.ipv4.tcp_rmem", "4096 131072 33554432") // window scale 10
	w.sysctl(w.place.Server, "net.ipv4.tcp_ecn", "1")
	if err := w.place.Server.Do(exec.Command("ip", "link", "set", w.ServerPort.Name, "mtu", "1400").Run); err != nil {
		w.t.Fatal(err)
	}
	w.serve(echoLong)
	bare = w.synackTo(w.address(false, port), 20000)
	natsd.Start(w.t, w.place.Server, filepath.Join(w.dir, "nats"))
	w.place.await("the NATS server", func() bool {
		_, err := w.fleetCommand("init", "--replicas", "1")
		return err == nil
	})
	w.relay(w.Edge.ns, netip.MustParseAddr("198.18.4.2"))
	for name, n := range map[string]*node{"edge1": w.Edge, "server1": w.server} {
		n.config += fmt.Sprintf("fleet: {servers: ['nats://127.0.0.1:%d'], node: %s}\n", natsd.Port, name)
	}
	w.startBoth()
	return bare
}

// awaitOffers waits until an operator sees an offer.
func (w *world) awaitOffers(want string) {
	w.t.Helper()
	w.place.await("offers with "+want, func() bool {
		out, err := w.fleetCommand("offers")
		return err == nil && strings.Contains(out, want)
	})
}

// wantWindowScale makes a connection and asks the server's kernel for the window scale that its socket believes to have announced.
func (w *world) wantWindowScale(want int) {
	w.t.Helper()
	c, err := w.dial(false, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if err := say(c, "tidegate?"); err != nil { // there is a socket now
		w.t.Fatal(err)
	}
	var out harness.Output
	cmd := exec.Command("ss", "-tinH", "state", "established", "dport", "=", fmt.Sprintf(":%d", c.LocalAddr().(*net.TCPAddr).Port))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := w.place.Server.Do(cmd.Run); err != nil || !regexp.MustCompile(fmt.Sprintf(`wscale:\d+,%d `, want)).MatchString(out.String()) {
		w.t.Errorf("window scale %d wanted: %v: %s", want, err, out.String())
	}
}

// A server that translates has a kernel that answers, too: its listeners' values are what edges offer. Where packets carry tags, the MSS leaves them room.
func TestEdgesOfferWhatTranslatingServersDo(t *testing.T) {
	for name, c := range map[string]struct {
		edge, server []string
		tag          int
	}{
		"plain":  {nil, []string{"takeover: translate"}, 0},
		"auto":   {nil, []string{"takeover: auto"}, 0},
		"tagged": {[]string{"protocol: tagged", "edge_id: 3", "learning: 0s"}, []string{"protocol: tagged", "takeover: translate", ""}, 20}, // TG_TAG_LEN
	} {
		t.Run(name, func(t *testing.T) {
			w := newTagged(t, nil, nil)
			if c.tag > 0 {
				v4, v6 := w.EdgeAddrs()
				c.server[2] = fmt.Sprintf("edges: [\"3 %s %s\"]", v4, v6)
			}
			w.Edge.configure("always", c.edge...)
			w.server.configure("always", c.server...)
			bare := w.offering()
			w.awaitOffers("server1  MSS 1360 and 1340, window scale 10,")
			l := harness.StartLoad(t, 10, w.inTurn())
			l.More(20)
			if out, err := w.fleetCommand("offers", "--apply"); err != nil || !strings.Contains(out, "in force at every node") {
				t.Fatalf("%v: %s", err, out)
			}
			l.More(50)
			want := slices.Clone(bare.Options)
			binary.BigEndian.PutUint16(want[2:], 1360-uint16(c.tag))
			if got := w.synackTo(w.address(false, port), 20002); got.Flags != bare.Flags || !bytes.Equal(got.Options, want) || max(got.Window, bare.Window)-min(got.Window, bare.Window) > 1360 {
				t.Errorf("the edge's SYN-ACK: flags %#x, window %d, options % x\nwant:                 flags %#x, window %d, options % x\nedge %v; server %v", got.Flags, got.Window, got.Options, bare.Flags, bare.Window, want,
					nonZero(w.Edge.counters()), nonZero(w.server.counters()))
			}
			l.End("offers of a translating server")
			w.Edge.run.Interrupt() // its SYNs go to the server from now on
			if got := w.synackTo(w.address(false, port), 20003); !bytes.Equal(got.Options[4:], want[4:]) {
				t.Errorf("the server's own SYN-ACK: window %d, options % x\nwant, but for the MSS:             options % x", got.Window, got.Options, want)
			}
			if counters := w.server.counters(); (name != "auto") != (counters["split_ready"] > 0) {
				t.Errorf("%v", nonZero(counters))
			}
		})
	}
}

// A server's kernel, tuned in its own way, is the measure: once an operator has the fleet's edges offer what servers do, an edge's SYN-ACK is the
// kernel's: its flags, every byte of its options, and its window but for part of a segment. Clients that connect meanwhile notice nothing. A later change of the server's is shown, and applied by hand.
func TestEdgesOfferWhatServersDo(t *testing.T) {
	w := newSplit(t, false, nil, nil)
	bare, web := w.offering(), w.address(false, port)
	if s := w.synackTo(web, 20001); bytes.Equal(s.Options, bare.Options) {
		t.Fatalf("an edge that knows nothing of its server answers as the server does: % x", s.Options)
	}
	w.awaitOffers("server1  MSS 1360 and 1340, window scale 10,")
	l := harness.StartLoad(t, 10, w.inTurn())
	l.More(100)
	if out, err := w.fleetCommand("offers", "--apply"); err != nil || !strings.Contains(out, "in force at every node") {
		t.Fatalf("%v: %s", err, out)
	}
	l.More(100)
	w.wantWindowScale(10)
	got := w.synackTo(web, 20002)
	if got.Flags != bare.Flags || !bytes.Equal(got.Options, bare.Options) || max(got.Window, bare.Window)-min(got.Window, bare.Window) > 1360 {
		t.Errorf("the edge's SYN-ACK: flags %#x, window %d, options % x\nthe kernel's:        flags %#x, window %d, options % x", got.Flags, got.Window, got.Options, bare.Flags, bare.Window, bare.Options)
	}

	// Another buffer, and then another option.
	w.sysctl(w.place.Server, "net.ipv4.tcp_rmem", "4096 131072 6291456")
	w.awaitOffers("window scale 7, window")
	if out, err := w.fleetCommand("offers"); err != nil || !strings.Contains(out, "edges    MSS 1360 and 1340, window scale 10") || !strings.Contains(out, "offers --apply") {
		t.Errorf("what edges offer is another thing now, and nobody says so: %v: %s", err, out)
	}
	if out, err := w.fleetCommand("offers", "--apply"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.More(100)
	l.End("changed offers")
	w.sysctl(w.place.Server, "net.ipv4.tcp_sack", "0") // until edges offer it no longer, the kernel adopts nothing that has agreed to it
	w.awaitOffers("no SACK")
	if out, err := w.fleetCommand("offers", "--apply"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.wantWindowScale(7)
	if s := w.synackTo(web, 20003); bytes.Contains(s.Options, []byte{4, 2}) || !bytes.Contains(s.Options, []byte{3, 3, 7}) {
		t.Errorf("options % x", s.Options)
	}
	if c := w.server.counters(); c["adopted"] == 0 || c["drop_unmatched_ack"] > 4 { // of the SYNs above nobody completed one
		t.Errorf("%v", nonZero(c))
	}
}
