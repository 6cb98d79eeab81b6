// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Where answers go. The client's namespace plays everything beyond the server's cable: its
// addresses are on its loopback, its SYNs leave by one port, and answers count only if
// they arrive at the port that the server's route leads to.

var (
	farClient4, farClient6 = netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("fd7d:7467:5::2")
	gateway4, gateway6     = netip.MustParseAddr("198.18.3.254"), netip.MustParseAddr("fd7d:7467:4::fe")
)

// families6 says "-6 " of one family to ip.
var families6 = map[bool]string{false: "-4 ", true: "-6 "}

// addGateway adds a second MAC address to the client's cable, tg-gate, with the gateway's
// addresses, which the server must resolve first.
func (w *world) addGateway() {
	w.t.Helper()
	for _, name := range []string{"all", "default", "tg-client"} {
		w.sysctl(w.Client, "net.ipv4.conf."+name+".arp_ignore", "1")
	}
	w.ip(w.Client, "link add link tg-client name tg-gate type macvlan mode bridge")
	w.ip(w.Client, "link set tg-gate up")
	w.ip(w.Client, "address add "+gateway4.String()+"/32 dev tg-gate")
	if rig.HaveIPv6() {
		w.ip(w.Client, "address add "+gateway6.String()+"/128 dev tg-gate nodad")
	}
}

// addFarClient gives the client addresses outside the server's link, and makes it
// connect from there.
func (w *world) addFarClient(dev string) {
	w.t.Helper()
	for _, ipv6 := range families() {
		far, bits, nodad := farClient4, "32", ""
		if ipv6 {
			far, bits, nodad = farClient6, "128", " nodad"
		}
		w.ip(w.Client, fmt.Sprintf("address add %s/%s dev lo%s", far, bits, nodad))
		w.ip(w.Client, fmt.Sprintf("%sroute replace %s/%s dev %s src %s", families6[ipv6], w.ServerAddr(ipv6), bits, dev, far))
		w.ip(w.Client, fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", w.ServerAddr(ipv6), w.ServerPort.MAC, dev))
	}
}

// defaultVia gives the server its default routes.
func (w *world) defaultVia(via4, via6 netip.Addr, more string) {
	w.t.Helper()
	w.ip(w.Server, "route replace default via "+via4.String()+more)
	if rig.HaveIPv6() {
		w.ip(w.Server, "-6 route replace default via "+via6.String()+more)
	}
}

// deaf makes the client drop answers that arrive at a port: that router does not forward them.
func (w *world) deaf(port string) {
	w.t.Helper()
	w.nft(w.Client, fmt.Sprintf("table inet deaf {\n chain c {\n type filter hook prerouting priority raw;\n iifname %q tcp sport %d drop\n}\n}\n", port, webPort))
}

// wantServed expects n connections of each family to be served.
func (w *world) wantServed(when string, n int) {
	w.t.Helper()
	for _, ipv6 := range families() {
		failed := 0
		for i := 0; i < n && failed < 2; i++ {
			if err := w.pingNew(ipv6, webPort); err != nil {
				failed++
				w.t.Errorf("%s, %s: connection %d: %v", when, familyName(ipv6), i, err)
			}
		}
	}
}

const routedConnections = 40

// The kernel's answers follow its route, whichever path a SYN took. A client that is
// served without the gate is served with it.
func TestAnswersTakeTheRoute(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		// The director's MAC address is that of tg-client. It does not forward.
		"LVS-DR: another gateway on the same link": func(w *world) {
			w.addGateway()
			w.addFarClient("tg-client")
			w.defaultVia(gateway4, gateway6, "")
			w.deaf("tg-client")
		},
		"LVS-DR: a client on the link": func(w *world) {
			w.addGateway()
			for _, ipv6 := range families() {
				bits, at := "32", gateway4
				if ipv6 {
					bits, at = "128", gateway6
				}
				w.ip(w.Client, fmt.Sprintf("%sroute replace %s/%s dev tg-client src %s", families6[ipv6], w.ServerAddr(ipv6), bits, at))
			}
			w.deaf("tg-client")
		},
		"two routers on two interfaces": func(w *world) {
			w.secondCable()
			w.addFarClient("tg-client")
			w.defaultVia(netip.MustParseAddr("198.18.4.2"), netip.MustParseAddr("fd7d:7467:6::2"), "")
			w.deaf("tg-client")
		},
		"client on the link, not resolved": func(w *world) {
			w.ip(w.Server, "neigh flush nud permanent dev tg-server")
		},
		"one gateway, not resolved": func(w *world) {
			w.addGateway()
			w.addFarClient("tg-gate")
			w.defaultVia(gateway4, gateway6, "")
			w.deaf("tg-client")
		},
		"policy routing by the server's address": func(w *world) {
			w.addGateway()
			w.addFarClient("tg-client")
			w.defaultVia(w.ClientAddr(false), w.ClientAddr(true), "")
			w.defaultVia(gateway4, gateway6, " table 100")
			for _, ipv6 := range families() {
				w.ip(w.Server, families6[ipv6]+"rule add from "+w.ServerAddr(ipv6).String()+" lookup 100")
			}
			w.deaf("tg-client")
		},
		"policy routing by port": func(w *world) {
			w.addGateway()
			w.addFarClient("tg-client")
			w.defaultVia(w.ClientAddr(false), w.ClientAddr(true), "")
			w.defaultVia(gateway4, gateway6, " table 100")
			for _, ipv6 := range families() {
				w.ip(w.Server, fmt.Sprintf("%srule add ipproto tcp sport %d lookup 100", families6[ipv6], webPort))
			}
			w.deaf("tg-client")
		},
		"several next hops": func(w *world) {
			w.addGateway()
			w.addFarClient("tg-client")
			w.ip(w.Server, "route add default nexthop via "+gateway4.String()+" dev tg-server nexthop via 198.18.3.253 dev tg-server")
			w.ip(w.Client, "address add 198.18.3.253/32 dev tg-gate")
			if rig.HaveIPv6() {
				w.ip(w.Server, "-6 route add default nexthop via "+gateway6.String()+" dev tg-server nexthop via fd7d:7467:4::fd dev tg-server")
				w.ip(w.Client, "address add fd7d:7467:4::fd/128 dev tg-gate nodad")
			}
			w.deaf("tg-client")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			prepare(w)
			w.wantServed("without the gate", 3)
			w.forgetNeighbours()
			w.start(w.webConfig(webPort))
			w.wantServed("with the gate", routedConnections)
		})
	}
}

// forgetNeighbours flushes the server's neighbour tables.
func (w *world) forgetNeighbours() {
	w.t.Helper()
	for _, ipv6 := range families() {
		w.ip(w.Server, families6[ipv6]+"neigh flush all")
	}
}

// secondCable joins client and server by a second cable: tg-client2, tg-server2.
func (w *world) secondCable() {
	w.t.Helper()
	w.ip(w.Client, "link add tg-client2 type veth peer name tg-server2 netns "+w.Server.Name)
	for n, end := range map[*rig.Namespace][4]string{w.Client: {"tg-client2", "198.18.4.2/24", "fd7d:7467:6::2/64", "fe80::2/64"},
		w.Server: {"tg-server2", "198.18.4.1/24", "fd7d:7467:6::1/64", "fe80::1/64"}} {
		w.ip(n, "link set "+end[0]+" up")
		w.ip(n, "address add "+end[1]+" dev "+end[0])
		if rig.HaveIPv6() {
			w.ip(n, "address add "+end[2]+" dev "+end[0]+" nodad")
			w.ip(n, "address add "+end[3]+" dev "+end[0]+" nodad")
		}
	}
}

// A flood does not lock routed clients out: their SYNs are answered to the gateway, not left
// to the kernel.
func TestRoutedAnswersUnderFlood(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.addGateway()
	w.addFarClient("tg-client")
	w.defaultVia(gateway4, gateway6, "")
	w.deaf("tg-client")
	g := w.start(w.webConfig(webPort))
	g.Await("the gateway's MAC address", func() bool {
		before := w.counters()["reply_routed"]
		w.wantServed("at first", 1)
		return w.counters()["reply_routed"] == before+uint64(len(families()))
	})
	w.flood(3000, netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd7d:7467:9::/64"))
	before := w.counters()
	w.wantServed("after a flood", routedConnections)
	after := w.counters()
	if got, want := after["reply_routed"]-before["reply_routed"], uint64(routedConnections*len(families())); got != want {
		t.Errorf("%d of %d SYNs answered by the route; all: %v", got, want, after)
	}
	if after["pass_route"] > 50 {
		t.Errorf("%d SYNs of %d left to the kernel", after["pass_route"], after["syn"])
	}
}

// flood sends n SYNs of each family from addresses of the prefixes, as the director would.
func (w *world) flood(n int, from4, from6 netip.Prefix) {
	w.t.Helper()
	var frames [][]byte
	for _, ipv6 := range families() {
		a := from4.Addr()
		if ipv6 {
			a = from6.Addr()
		}
		for i := range n {
			if a = a.Next(); !from4.Contains(a) && !from6.Contains(a) {
				a = from4.Addr().Next()
			}
			f := w.syn(ipv6, uint16(2000+i))
			f.Src = netip.AddrPortFrom(a, f.Src.Port())
			frames = append(frames, f.Bytes())
		}
	}
	w.must(load.SendFrames(w.ClientPort, frames...))
}

// SYNs from unresolved neighbours are left to the kernel, which resolves them: but
// few, however many there are.
func TestNeighbourFloodIsBounded(t *testing.T) {
	const n = 4000
	w := newWorld(t)
	w.echoServer(webPort)
	w.ip(w.Server, "address add 198.18.127.254/18 dev tg-server")
	w.start(w.webConfig(webPort))
	w.flood(n, netip.MustParsePrefix("198.18.64.0/18"), netip.MustParsePrefix("fd7d:7467:4::1:0/112"))
	c := w.counters()
	if got := c["pass_neighbour"]; got == 0 || got > n/20 {
		t.Errorf("%d of %d SYNs left to the kernel; all: %v", got, c["syn"], c)
	}
	if asked := w.unresolved(); asked > n/20 {
		t.Errorf("the kernel asks for %d neighbours", asked)
	}
	if got, want := c["reply_unsure"]+c["pass_neighbour"], c["syn"]; got != want {
		t.Errorf("%d SYNs answered where they came from, or left to the kernel, of %d", got, want)
	}
	w.mustPingNew(5)
}

// unresolved counts the neighbours that the server is resolving, or has failed to resolve.
func (w *world) unresolved() (n int) {
	w.t.Helper()
	for _, ipv6 := range families() {
		var out []byte
		w.must(w.Server.Do(func() (err error) {
			out, err = exec.Command("ip", strings.Fields(families6[ipv6]+"neigh show nud incomplete nud failed")...).Output()
			return err
		}))
		n += strings.Count(string(out), "\n")
	}
	return n
}

// A SYN from an address without a route is not answered: the kernel is silent, too.
func TestNoRouteNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	var frames []*load.Frame
	for _, ipv6 := range families() {
		for i := range 20 {
			f := w.syn(ipv6, uint16(2000+i))
			f.Src = netip.AddrPortFrom(map[bool]netip.Addr{false: farClient4, true: farClient6}[ipv6], f.Src.Port())
			frames = append(frames, f)
		}
	}
	if got := w.answers(frames...); got != 0 {
		t.Errorf("%d of %d answered without a route", got, len(frames))
	}
}

// A change of route is followed, without a pause that a client would notice.
func TestRouteChanges(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.addGateway()
	w.addFarClient("tg-client")
	w.defaultVia(w.ClientAddr(false), w.ClientAddr(true), "")
	g := w.start(w.webConfig(webPort))
	w.wantServed("by the first gateway", 5)
	before := w.counters()
	w.defaultVia(gateway4, gateway6, "")
	g.Await("answers by the second gateway", func() bool {
		w.wantServed("while the route changes", 1)
		return w.counters()["reply_routed"] >= before["reply_routed"]+uint64(len(families()))
	})
	w.deaf("tg-client")
	w.wantServed("by the second gateway", 5)
}
