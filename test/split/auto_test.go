// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

const mptcpPort = 81

// newAuto is a world whose server chooses the takeover for each listener; port 81 is protected, too.
func newAuto(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, false)
	if err := w.YieldServer(); err != nil {
		t.Fatal(err)
	}
	w.server.configure("always", "takeover: auto")
	for _, n := range []*node{w.Edge, w.server} {
		n.config = strings.Replace(n.config, fmt.Sprintf("ports: [%d]", port), fmt.Sprintf("ports: [%d, %d]", port, mptcpPort), 1)
	}
	return w
}

// listen is like serve, at a port and with MPTCP or without; the listener is the caller's.
func (w *place) listen(n *rig.Namespace, at netip.AddrPort, mptcp bool) net.Listener {
	w.t.Helper()
	return w.listenWith(n, at, mptcp, echo)
}

func (w *place) listenWith(n *rig.Namespace, at netip.AddrPort, mptcp bool, handle func(*net.TCPConn)) net.Listener {
	w.t.Helper()
	return harness.Server{MPTCP: mptcp}.Serve(w.t, n, at.String(), handle)
}

// openSilent connects to an address from a namespace.
func (w *place) openSilent(from *rig.Namespace, at netip.AddrPort) *net.TCPConn {
	w.t.Helper()
	c, err := harness.Dial(from, at)
	if err != nil {
		w.t.Fatalf("%s: %v", at, err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// openAt connects from the client and has a word echoed.
func (w *place) openAt(at netip.AddrPort) *net.TCPConn {
	w.t.Helper()
	c := w.openSilent(w.Client, at)
	if err := say(c, "first"); err != nil {
		w.t.Fatalf("%s: %v", at, err)
	}
	return c
}

// chosen returns how and why a port of the service's address is taken over.
func (n *node) chosen(addr netip.Addr, port string) (how, why string) {
	for _, c := range n.status().Takeovers {
		for _, a := range c.Addresses {
			if p := netip.MustParsePrefix(a); p.Contains(addr) && (p.IsSingleIP() || how == "") && strings.Contains(", "+c.Ports+",", ", "+port+",") {
				how, why = c.How, c.Why
			}
		}
	}
	return how, why
}

// One server, a plain listener and an MPTCP one: the first is adopted, the second
// translated, and status shows both, with the reasons. Existing connections survive;
// the second listener becomes a plain one, and no client notices.
func TestAuto(t *testing.T) {
	w := newAuto(t)
	web, mp := w.address(false, port), w.address(false, mptcpPort)
	w.serve(echo)
	l := w.listen(w.place.Server, mp, true)
	older, olderMP := w.openAt(web), w.openAt(mp)
	w.startBoth()
	w.still(older, "older than the server role, plain")
	w.still(olderMP, "older than the server role, MPTCP")
	for at, want := range map[string][2]string{"80": {"adopt", "plain"}, "81": {"translate", "MPTCP"}} {
		if how, why := w.server.chosen(web.Addr(), at); how != want[0] || !strings.Contains(why, want[1]) {
			t.Errorf("port %s: %q, because %q; want %v", at, how, why, want)
		}
	}
	before := w.server.counters()
	if before["pass_socket"] == 0 {
		t.Errorf("the older connection of the MPTCP listener was not told by its socket: %v", nonZero(before))
	}
	for _, ipv6 := range families() {
		if err := w.ping(ipv6); err != nil {
			t.Errorf("%s, plain: %v; %v", familyName(ipv6), err, nonZero(w.server.counters()))
		}
	}
	translated := w.openAt(mp)
	after := w.server.counters()
	if a, s := after["adopted"]-before["adopted"], after["split_ready"]-before["split_ready"]; a != uint64(len(families())) || s != 1 || after["drop_unmatched_ack"] != 0 {
		t.Errorf("%d adopted, %d translated: %v", a, s, nonZero(after))
	}
	for _, at := range []netip.AddrPort{web, mp} {
		harness.WantTSvals(t, w.ClientPort, at == web, func() error {
			c, err := harness.Dial(w.Client, at)
			if err != nil {
				return err
			}
			defer c.Close()
			return say(c, "first")
		})
	}
	// The daemon may be dead meanwhile.
	w.server.kill()
	w.still(translated, "no process")
	w.still(w.openAt(mp), "new, no process")
	w.still(w.openAt(web), "new, no process")
	w.server.start()
	w.still(translated, "a new process")

	l.Close()
	w.listen(w.place.Server, mp, false)
	w.await("the plain listener to be adopted", func() bool {
		how, _ := w.server.chosen(mp.Addr(), "81")
		return how == "adopt"
	})
	w.still(translated, "translated, while new ones are adopted")
	w.still(olderMP, "older, while new ones are adopted")
	adopted := w.server.counters()["adopted"]
	w.still(w.openAt(mp), "adopted at the port of the MPTCP listener")
	if n := w.server.counters()["adopted"]; n != adopted+1 {
		t.Errorf("%d adopted, want %d", n, adopted+1)
	}
	w.Edge.off()
	w.server.off()
	if left, _ := os.ReadDir("/sys/fs/bpf/tidegate/" + w.server.instance); len(left) != 0 {
		t.Errorf("pins are left: %v", left)
	}
}

const guestAddr = "198.18.9.2"

// guest is a namespace behind the server's machine, which routes to it.
func (w *world) guest() *rig.Namespace {
	t := w.place.t
	t.Helper()
	guest, err := rig.NewNamespace("guest" + w.Tag())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	w.ip(w.place.Server, "link add tg-tap type veth peer name tg-guest netns "+guest.Name, "link set tg-tap up",
		"addr add 198.18.9.1/30 dev tg-tap")
	w.sysctl(w.place.Server, "net.ipv4.ip_forward", "1")
	w.ip(guest, "link set lo up", "link set tg-guest up", "addr add 198.18.9.2/30 dev tg-guest", "route add default via 198.18.9.1")
	w.ip(w.Proxy, "route add 198.18.9.2/32 via 198.18.4.2")
	return guest
}

// A guest behind the server's machine: an address that is protected and not local.
func TestAutoGuest(t *testing.T) {
	w := newAuto(t)
	guest := w.guest()
	at := netip.MustParseAddrPort(guestAddr + ":80")
	w.listen(guest, at, false)
	w.serve(echo)
	w.startBoth()
	if how, why := w.server.chosen(at.Addr(), "80"); how != "translate" || !strings.Contains(why, "guest") {
		t.Errorf("the guest: %q, because %q", how, why)
	}
	w.still(w.openAt(at), "the guest's")
	w.still(w.openAt(w.address(false, port)), "this machine's")
	w.server.wantCounters(map[string]uint64{"adopted": 1, "split_ready": 1, "drop_unmatched_ack": 0})
}

// ip runs commands of ip(8) inside a namespace.
func (w *place) ip(n *rig.Namespace, commands ...string) {
	w.t.Helper()
	for _, line := range commands {
		cmd := exec.Command("ip", strings.Fields(line)...)
		var out harness.Output
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := n.Do(cmd.Run); err != nil {
			w.t.Fatalf("ip %s in %s: %v: %s", line, n.Name, err, out.String())
		}
	}
}

// Tag distinguishes the namespaces of one world from the others'.
func (w *world) Tag() string { return w.Instance[strings.LastIndex(w.Instance, "-"):] }
