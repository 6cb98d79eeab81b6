// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Where the kernel cannot adopt, connections are translated: machines on which a host gate once meant an outage.

const mptcpPort = webPort + 1

// obstacles are rules of a machine that adopted connections do not pass.
var obstacles = []struct{ name, rules string }{
	{"none", ""},
	{"connection tracking and an empty nat chain", `table inet o {
		chain nat { type nat hook postrouting priority srcnat; }
		chain in { type filter hook input priority 0; ct state established accept; }
	}`},
	{"new and not SYN", `table inet o {
		chain in { type filter hook input priority 0; tcp dport { 80, 81 } tcp flags & (fin|syn|rst|ack) != syn ct state new drop; }
	}`},
	{"invalid is dropped, and a SYN accepted", `table inet o {
		chain in { type filter hook input priority 0; policy drop; meta l4proto { icmp, icmpv6 } accept; ct state invalid drop
			ct state established accept; tcp flags & (fin|syn|rst|ack) == syn accept; }
	}`},
}

// translating is a world with a plain and an MPTCP listener whose gate runs as configured.
func translating(t *testing.T, takeover string) (*world, *gate) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.listenOn(mptcpPort, unix.IPPROTO_MPTCP, 512).serve(echo)
	g := w.start(w.topConfig("takeover: "+takeover) + fmt.Sprintf(twoPorts, webPort, mptcpPort))
	return w, g
}

// served expects n new connections to each of the ports, in both families, to carry data.
func (w *world) served(n int, ports ...uint16) {
	w.t.Helper()
	for _, ipv6 := range families() {
		for _, port := range ports {
			for i := range n {
				if err := w.pingNew(ipv6, port); err != nil {
					w.t.Fatalf("%s, port %d, connection %d of %d: %v", familyName(ipv6), port, i, n, err)
				}
			}
		}
	}
}

// Local listeners behind rules that need to see a handshake, and an MPTCP one.
func TestTranslate(t *testing.T) {
	const n = 20
	w, _ := translating(t, "translate")
	for _, o := range obstacles {
		w.nft(w.Server, "flush ruleset\n"+o.rules)
		before := w.counters()
		w.served(n, webPort, mptcpPort)
		after := w.counters()
		want := uint64(2 * n * len(families()))
		if got := after["split_ready"] - before["split_ready"]; got != want || after["adopted"] != 0 {
			t.Errorf("%s: %d of %d connections translated, %d adopted", o.name, got, want, after["adopted"])
		}
		if t.Failed() {
			t.Fatalf("with the rules %q", o.name)
		}
	}
}

// container is a namespace behind a bridge of the server, with a listener of each family.
func (w *world) container() *rig.Namespace {
	w.t.Helper()
	inside, err := w.AddNamespace("container")
	w.must(err)
	for _, args := range []string{"link add tg-bridge type bridge", "link set tg-bridge up",
		"address add 198.18.200.1/24 dev tg-bridge", "link add tg-veth type veth peer name tg-inside netns " + inside.Name,
		"link set tg-veth master tg-bridge up"} {
		w.ip(w.Server, args)
	}
	for _, args := range []string{"link set tg-inside up", "address add 198.18.200.2/24 dev tg-inside", "route add default via 198.18.200.1"} {
		w.ip(inside, args)
	}
	if len(families()) > 1 {
		for _, prefix := range []string{"fd7d:7467:200::", "fe80::200:"} { // a router's neighbour solicitations come from a link-local address
			w.ip(w.Server, "address add "+prefix+"1/64 dev tg-bridge nodad")
			w.ip(inside, "address add "+prefix+"2/64 dev tg-inside nodad")
		}
		w.ip(inside, "route add default via fd7d:7467:200::1")
		w.sysctl(w.Server, "net.ipv6.conf.all.forwarding", "1")
	}
	w.sysctl(w.Server, "net.ipv4.ip_forward", "1")
	for _, ipv6 := range families() {
		w.listenIn(inside, ipv6).serve(echo)
	}
	return inside
}

const toContainer = `table inet docker {
	chain pre { type nat hook prerouting priority dstnat
		meta nfproto ipv4 fib daddr type local tcp dport %[1]d dnat ip to 198.18.200.2:80
		meta nfproto ipv6 fib daddr type local tcp dport %[1]d dnat ip6 to [fd7d:7467:200::2]:80
	}
	chain post { type nat hook postrouting priority srcnat; ip saddr 198.18.200.0/24 oifname != "tg-bridge" masquerade; }
}`

// Published ports of a container: DNAT over a bridge, as Docker writes it, without a listener
// here and with docker-proxy's.
func TestTranslateToContainer(t *testing.T) {
	const n, published = 10, 8088
	w := newWorld(t)
	w.container()
	w.nft(w.Server, fmt.Sprintf(toContainer, published))
	for _, ipv6 := range families() { // without the gate, once the bridge has its addresses
		w.await("the container, "+familyName(ipv6), func() bool { return w.pingNew(ipv6, published) == nil })
	}
	w.start(w.topConfig("takeover: translate") + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: always\n    forwarded: yes\n", published))
	w.served(n, published)
	proxy := w.listenOn(published, unix.IPPROTO_TCP, 16)
	w.served(n, published)
	proxy.close()
	want := uint64(2 * n * len(families()))
	w.wantCounters(map[string]uint64{"syn": want, "cookie_sent": want, "split_ready": want, "adopted": 0})
}

// A redirect from a port without a listener to one with a listener.
func TestTranslateRedirected(t *testing.T) {
	const n, from = 10, 443
	w := newWorld(t)
	w.echoServer(8443)
	w.nft(w.Server, fmt.Sprintf("table inet r { chain pre { type nat hook prerouting priority dstnat; tcp dport %d redirect to :8443; }; }", from))
	w.start(w.topConfig("takeover: translate") + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: always\n    forwarded: yes\n", from))
	w.served(n, from)
	want := uint64(n * len(families()))
	w.wantCounters(map[string]uint64{"cookie_sent": want, "split_ready": want})
}

// how returns, from status, how connections to a port are taken over, and why.
func (w *world) how(port uint16) (how, why string) {
	for _, t := range w.status().Takeovers {
		if t.Ports == fmt.Sprint(port) && t.Addresses[0] == "0.0.0.0" {
			return t.How, t.Why
		}
	}
	return "", ""
}

// takeover: auto. The plain listener is adopted, the MPTCP one is translated. When a nat chain
// appears, the plain one is translated, too, and when it is removed, adopted again; existing connections
// keep their kind of takeover.
func TestTakeoverAuto(t *testing.T) {
	const n = 5
	w, _ := translating(t, "auto")
	w.served(n, webPort, mptcpPort)
	each := uint64(n * len(families()))
	w.wantCounters(map[string]uint64{"adopted": each, "split_ready": each, "pass_listener": 0})
	for port, want := range map[uint16]string{webPort: "adopt", mptcpPort: "translate"} {
		if how, why := w.how(port); how != want || why == "" {
			t.Errorf("port %d: %q, because %q; want %s", port, how, why, want)
		}
	}
	var live []conn
	for _, step := range []struct{ rules, how, counter string }{
		{obstacles[1].rules, "translate", "split_ready"}, {"", "adopt", "adopted"}, {obstacles[1].rules, "translate", "split_ready"}} {
		for _, ipv6 := range families() {
			live = append(live, w.mustDial(ipv6, webPort))
			w.must(live[len(live)-1].ping())
		}
		w.nft(w.Server, "flush ruleset\n"+step.rules)
		w.await("port 80: "+step.how, func() bool { how, _ := w.how(webPort); return how == step.how })
		before := w.counters()
		w.served(n, webPort)
		if got := w.counters()[step.counter] - before[step.counter]; got != each {
			t.Errorf("%s: %d of %d connections", step.how, got, each)
		}
		for _, c := range live {
			w.must(c.ping())
		}
	}
}

// A verified ACK that the kernel refuses to adopt is translated: the listener becomes MPTCP while no daemon
// runs, and not even the first client notices.
func TestRefusedIsTranslated(t *testing.T) {
	w := newWorld(t)
	l := w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "takeover: auto"))
	w.mustPingNew(1)
	g.Kill()
	l.close()
	w.listenOn(webPort, unix.IPPROTO_MPTCP, 512).serve(echo)
	w.mustPingNew(3)
	n := uint64(len(families()))
	w.wantCounters(map[string]uint64{"adopted": n, "adopt_failed": 1, "split_ready": 3 * n, "pass_listener": 0})
}
