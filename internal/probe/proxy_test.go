// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
)

func proxyConfig(f config.Forwarding) *config.Config {
	return &config.Config{Role: config.RoleProxy, Interfaces: []string{"eth0", "eth1"}, XDPMode: config.XDPAuto,
		Proxy: config.Proxy{Forwarding: f, MaxFlows: 1 << 20, MaxSources: 1 << 20}}
}

func TestPort(t *testing.T) {
	good := port{nic: nic{name: "eth0", up: true, mtu: 1500, xdpKnown: true, nativeXDP: true, redirects: true}, ethernet: true}
	for _, tc := range []struct {
		change  func(*port)
		forward config.Forwarding
		mode    config.XDPMode
		status  Status
		text    string
	}{
		{func(*port) {}, config.ForwardRouter, config.XDPAuto, OK, ""},
		{func(p *port) { p.ethernet = false }, config.ForwardRouter, config.XDPAuto, Fail, "Ethernet device beneath"},
		{func(p *port) { p.redirects = false }, config.ForwardRouter, config.XDPAuto, Fail, "xdp_mode: generic"},
		{func(p *port) { p.redirects = false }, config.ForwardRouter, config.XDPGeneric, OK, ""},
		{func(p *port) { p.master = "br0" }, config.ForwardBridge, config.XDPAuto, Warn, "nomaster"},
		{func(p *port) { p.gro = true }, config.ForwardRouter, config.XDPAuto, OK, ""},
		{func(p *port) { p.gro = true }, config.ForwardRouter, config.XDPGeneric, Warn, "gro off"},
		{func(p *port) { p.addrs = []string{"192.0.2.1"} }, config.ForwardRouter, config.XDPAuto, OK, ""},
		{func(p *port) { p.addrs = []string{"192.0.2.1"} }, config.ForwardBridge, config.XDPAuto, Warn, "ip addr del 192.0.2.1 dev eth0"},
	} {
		p, c := good, proxyConfig(tc.forward)
		c.XDPMode = tc.mode
		tc.change(&p)
		got := judgePort(p, c)
		if got.Status == OK {
			got.Found = "fine" // rows that are ok are not shown
		}
		want(t, got, tc.status, tc.text)
	}
}

func TestMTUAndSides(t *testing.T) {
	a, b := port{nic: nic{name: "eth0", up: true, mtu: 1500}}, port{nic: nic{name: "eth1", up: true, mtu: 9000}}
	want(t, mtuCheck([]port{a, a}, config.ForwardBridge), OK, "MSS of at most 1460")
	want(t, mtuCheck([]port{a, b}, config.ForwardRouter), OK, "9000 on eth1")
	want(t, mtuCheck([]port{a, b}, config.ForwardBridge), Warn, "ip link set eth1 mtu 1500")
	want(t, mtuCheck(nil, config.ForwardRouter), OK, "no port")
	want(t, bridgeSidesCheck([]port{a, b}), OK, "eth0 and eth1")
	b.up = false
	want(t, bridgeSidesCheck([]port{a, b}), Fail, "1 of 2")
}

func TestForwarding(t *testing.T) {
	const all, own = "net.ipv4.ip_forward", "net.ipv4.conf.%s.forwarding"
	want(t, judgeForwarding("IPv4", all, own, true, false, true, nil), OK, "ip_forward=1")
	want(t, judgeForwarding("IPv4", all, own, true, true, true, nil), Fail, "sysctl -w net.ipv4.ip_forward=1")
	want(t, judgeForwarding("IPv4", all, own, true, true, false, nil), Warn, "no IPv4 packet")
	want(t, judgeForwarding("IPv4", all, own, true, false, true, []string{"eth1"}), Fail, "sysctl -w net.ipv4.conf.eth1.forwarding=1")
	want(t, judgeForwarding("IPv6", all, own, false, true, true, nil), Warn, "cannot be read")
}

func TestRoutes(t *testing.T) {
	to := netip.MustParsePrefix("192.0.2.0/24")
	gateway := netip.MustParseAddr("198.51.100.1")
	for _, tc := range []struct {
		w      kernelRoute
		status Status
		text   string
	}{
		{kernelRoute{err: unix.ENETUNREACH}, Fail, "ip route add 192.0.2.0/24 via GATEWAY"},
		{kernelRoute{dev: "lo", local: true}, Fail, "role: host"},
		{kernelRoute{dev: "eth2"}, Fail, "add eth2 to `interfaces:`"},
		{kernelRoute{dev: "eth1.5", devKind: "vlan"}, Warn, "beneath eth1.5"},
		{kernelRoute{dev: "eth1", ours: true, gateway: gateway, neighbour: "does not answer"}, Warn, "ip neigh show dev eth1"},
		{kernelRoute{dev: "eth1", ours: true, gateway: gateway, neighbour: "answers"}, OK, "via 198.51.100.1 on eth1, which answers"},
		{kernelRoute{dev: "eth1", ours: true, gateway: gateway, neighbour: "set by hand"}, OK, "set by hand"},
		{kernelRoute{dev: "eth1", ours: true, nearby: 3}, OK, "3 servers"},
		{kernelRoute{dev: "eth1", ours: true}, OK, "not yet resolved"},
	} {
		tc.w.to = to
		want(t, judgeRoute(tc.w), tc.status, tc.text)
	}
	want(t, judgeBack("IPv4", true, kernelRoute{err: unix.ENETUNREACH}), Warn, "default route")
	want(t, judgeBack("IPv4", false, kernelRoute{err: unix.ENETUNREACH}), OK, "may not be in use")
	want(t, judgeBack("IPv4", true, kernelRoute{dev: "eth9"}), Fail, "add eth9")
	want(t, judgeBack("IPv4", true, kernelRoute{dev: "eth0", ours: true}), OK, "leave by eth0")
	if firstHost(to) != netip.MustParseAddr("192.0.2.1") || firstHost(netip.MustParsePrefix("192.0.2.9/32")) != netip.MustParseAddr("192.0.2.9") {
		t.Error("firstHost")
	}
}

func TestMemory(t *testing.T) {
	c := proxyConfig(config.ForwardRouter)
	want(t, memoryCheck(c, 0), Warn, "mount /proc")
	want(t, memoryCheck(c, 64<<20), Fail, "max_flows")
	want(t, memoryCheck(c, 512<<20), Warn, "before the tables are full")
	want(t, memoryCheck(c, 8<<30), OK, "8192 MiB available")
	if meminfo("MemAvailable") == 0 || meminfo("Nothing") != 0 {
		t.Error("meminfo")
	}
}
