// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/labbpf"
	"tidegate/internal/lab/rig"
)

// end is one end of a cable.
type end struct {
	machine, port string
	addrs         []string
}

// network is a page's machines and their links. Addresses are those of the pages.
type network struct {
	cables [][2]end
	// routes of a machine: "PREFIX via ADDRESS"; several next hops for one prefix share the load.
	routes map[string][][2]string
	serve  []string          // machines with a web server on port 80
	routed []string          // machines that forward
	bridge []string          // machines that are a switch: all their ports are one
	kind   map[string]string // machines with more than that: of kinds
}

var networks = map[string]network{
	// client --- server
	"server": {
		cables: [][2]end{{{"client", "eth0", []string{"192.0.2.20/24", "2001:db8::20/64"}}, {"server", "eth0", []string{"192.0.2.10/24", "2001:db8::10/64"}}}},
		serve:  []string{"server"},
	},
	// client --- router --- server
	"router": {
		cables: [][2]end{
			{{"client", "eth0", []string{"198.51.100.20/24", "2001:db8:1::20/64"}}, {"router", "eth0", []string{"198.51.100.1/24", "2001:db8:1::1/64"}}},
			{{"router", "eth1", []string{"192.0.2.1/24", "2001:db8::1/64"}}, {"server", "eth0", []string{"192.0.2.10/24", "2001:db8::10/64"}}},
		},
		routes: map[string][][2]string{
			"client": {{"192.0.2.0/24", "198.51.100.1"}, {"2001:db8::/64", "2001:db8:1::1"}},
			"server": {{"0.0.0.0/0", "192.0.2.1"}, {"::/0", "2001:db8::1"}},
		},
		serve: []string{"server"}, routed: []string{"router"},
	},
	// client --- host, which has containers
	"podman": containers("podman"), "docker": containers("docker"),
	// client --- node --- pod
	"node": {
		cables: [][2]end{
			{{"client", "eth0", []string{"192.0.2.20/24"}}, {"node", "eth0", []string{"192.0.2.10/24"}}},
			{{"node", "cni0", []string{"198.18.200.1/24"}}, {"pod", "eth0", []string{"198.18.200.2/24"}}},
		},
		routes: map[string][][2]string{"pod": {{"0.0.0.0/0", "198.18.200.1"}}},
		serve:  []string{"pod"}, routed: []string{"node"}, kind: map[string]string{"node": "node"},
	},
	// a machine on which a device is built and emulated
	"workshop": {
		cables: [][2]end{{{"workshop", "eth0", []string{"192.0.2.10/24"}}, {"switch", "port0", nil}}},
		bridge: []string{"switch"}, kind: map[string]string{"workshop": "workshop"},
	},
	// admin, gate1, gate2, client at one switch
	"fleet": {
		cables: [][2]end{
			{{"admin", "eth0", []string{"192.0.2.2/24"}}, {"switch", "port0", nil}},
			{{"gate1", "eth0", []string{"192.0.2.11/24"}}, {"switch", "port1", nil}},
			{{"gate2", "eth0", []string{"192.0.2.12/24"}}, {"switch", "port2", nil}},
			{{"client", "eth0", []string{"192.0.2.20/24"}}, {"switch", "port3", nil}},
		},
		serve: []string{"gate1", "gate2"}, bridge: []string{"switch"},
	},
	// client --- switch --- edge1, edge2 --- switch --- server1, server2
	"farm": {
		cables: [][2]end{
			{{"client", "eth0", []string{"198.51.100.20/24"}}, {"outside", "port0", nil}},
			{{"edge1", "eth0", []string{"198.51.100.1/24"}}, {"outside", "port1", nil}},
			{{"edge2", "eth0", []string{"198.51.100.2/24"}}, {"outside", "port2", nil}},
			{{"edge1", "eth1", []string{"192.0.2.1/24"}}, {"inside", "port1", nil}},
			{{"edge2", "eth1", []string{"192.0.2.2/24"}}, {"inside", "port2", nil}},
			{{"server1", "eth0", []string{"192.0.2.10/24"}}, {"inside", "port3", nil}},
			{{"server2", "eth0", []string{"192.0.2.11/24"}}, {"inside", "port4", nil}},
		},
		routes: map[string][][2]string{
			"client":  {{"192.0.2.0/24", "198.51.100.1"}, {"192.0.2.0/24", "198.51.100.2"}},
			"server1": {{"0.0.0.0/0", "192.0.2.1"}}, "server2": {{"0.0.0.0/0", "192.0.2.2"}},
		},
		serve: []string{"server1", "server2"}, routed: []string{"edge1", "edge2"}, bridge: []string{"outside", "inside"},
	},
}

func containers(engine string) network {
	return network{
		cables: [][2]end{{{"client", "eth0", []string{"192.0.2.20/24", "2001:db8::20/64"}}, {"host", "eth0", []string{"192.0.2.10/24", "2001:db8::10/64"}}}},
		routes: map[string][][2]string{"host": {{"0.0.0.0/0", "192.0.2.20"}, {"::/0", "2001:db8::20"}}},
		kind:   map[string]string{"host": engine},
	}
}

// build makes the machines of a network and boots them.
func (w network) build(t *testing.T, tag, bin string) map[string]*machine {
	t.Helper()
	spaces, ports := map[string]*rig.Namespace{}, map[string]*rig.Port{}
	space := func(name string) *rig.Namespace {
		if spaces[name] == nil {
			n, err := rig.NewNamespace(tag + name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
			// Routers need link-local addresses, as every machine has, to find their neighbours.
			if err := n.SetSysctls([2]string{"net.ipv6.conf.default.addr_gen_mode", "0"}, [2]string{"net.ipv6.conf.all.addr_gen_mode", "0"}, [2]string{"net.ipv6.conf.default.accept_dad", "0"}); err != nil {
				t.Fatal(err)
			}
			spaces[name] = n
		}
		return spaces[name]
	}
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	objs := &labbpf.LabFloodObjects{}
	if err := labbpf.LoadLabFloodObjects(objs, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { objs.Close() })
	var errs []error
	for _, c := range w.cables {
		a, b, err := rig.NewVeth(owner, space(c[0].machine), c[0].port, space(c[1].machine), c[1].port)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []*rig.Port{a, b} {
			e := c[i]
			ports[e.machine+" "+e.port] = p
			// As on a wire: checksums are complete, and what XDP programs send arrives.
			errs = append(errs, p.DisableTxChecksum(), p.EnableGRO(), p.NS.Do(func() error { return address(p, e.addrs) }))
			if slices.Contains(w.routed, c[1-i].machine) { // veth accepts frames sent by XDP only if a program is here, too
				l, err := p.AttachXDP(objs.TgLabPass)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
			}
		}
	}
	for name, n := range spaces {
		errs = append(errs, n.Do(func() error { _, err := rig.LoUp(); return err }))
		if len(w.routes[name]) > 0 {
			errs = append(errs, n.Do(func() error { return route(w.routes[name]) }))
		}
	}
	for _, name := range w.routed {
		errs = append(errs, spaces[name].SetSysctls([2]string{"net.ipv4.ip_forward", "1"}, [2]string{"net.ipv6.conf.all.forwarding", "1"}))
	}
	for _, name := range w.bridge {
		errs = append(errs, spaces[name].Do(join))
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	machines, peers := map[string]*machine{}, t.TempDir()
	for name, n := range spaces {
		machines[name] = boot(t, name, n, bin, peers, kinds[w.kind[name]])
	}
	for _, name := range w.serve {
		machines[name].nginx(t, 80)
	}
	return machines
}

func address(p *rig.Port, addrs []string) error {
	for _, text := range addrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := rig.AddAddr(p.Index, prefix); err != nil {
			return fmt.Errorf("%s on %s: %w", text, p.Name, err)
		}
	}
	return nil
}

// route adds routes to the namespace of the calling thread.
func route(routes [][2]string) error {
	hops := map[string][]*netlink.NexthopInfo{}
	for _, r := range routes {
		hops[r[0]] = append(hops[r[0]], &netlink.NexthopInfo{Gw: netip.MustParseAddr(r[1]).AsSlice()})
	}
	for prefix, next := range hops {
		r := &netlink.Route{Dst: rig.IpNet(netip.MustParsePrefix(prefix))}
		if len(next) == 1 {
			r.Gw = next[0].Gw
		} else {
			r.MultiPath = next
		}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("route to %s: %w", prefix, err)
		}
	}
	return nil
}

// join makes a bridge of all ports in the namespace of the calling thread.
func join() error {
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "switch"}}
	if err := netlink.LinkAdd(br); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Type() != "veth" {
			continue
		}
		if err := netlink.LinkSetMaster(l, br); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(br)
}
