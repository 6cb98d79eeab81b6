// SPDX-License-Identifier: Apache-2.0

package verdicts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"tidegate/internal/framegen"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

const (
	servicePort = 80
	patience    = world.Patience
)

var tidegate string // the binary under test

// onDPDK: the gates are proxies whose packet path is tidegate-dpdk.
var onDPDK = os.Getenv("TIDEGATE_TEST_PLANE") == rig.PlaneDPDK

func TestMain(m *testing.M) {
	var prepare []func() error
	if onDPDK {
		prepare = append(prepare, world.BuildDPDK)
	}
	os.Exit(world.Main(m, &tidegate, prepare...))
}

var worlds atomic.Int32

// machine is a server, with a box before it or without, seen from a client's wire.
type machine struct {
	instances []*world.Instance // of tidegate, with gates
	processes []*world.Process  // theirs
	*tap
	*listener
	net framegen.Network
	dir string
}

// gate is one `tidegate run` of a machine: where, and with which configuration.
type gate struct {
	at     string // "server" or "box"
	config string // without instance, secret_file and services
	svc    string // lines of the service besides its name and ports
	asIs   bool   // the gate advertises the window that it would
}

// kind is what a frame goes through.
type kind struct {
	name  string
	boxed bool // a router stands before the server
	gates []gate
}

// kinds are the deployments under test. No allowance lets anything pass.
var kinds = []kind{
	{name: "host", gates: []gate{{at: "server", config: "interfaces: [tg-server]\nxdp_mode: native\n"}}},
	{name: "host-translate", gates: []gate{{at: "server", config: "interfaces: [tg-server]\nxdp_mode: native\ntakeover: translate\n"}}},
	{name: "edge", boxed: true, gates: []gate{
		{at: "server", config: "role: server\ninterfaces: [tg-server]\n"},
		{at: "box", config: "role: edge\ninterfaces: [tg-flood, tg-legit, tg-inner]\ninside: [tg-inner]\nunknown_rate: 0\nlearning: 0s\n"}}},
	boxedProxy("cookie"), boxedProxy("auth-cookie"), boxedProxy("auth-full"), boxedProxy("cache"),
}

func boxedProxy(strategy string) kind {
	config := "role: proxy\ninterfaces: [tg-flood, tg-legit, tg-inner]\n"
	if onDPDK {
		config += "plane: dpdk\ndpdk: {memory_mib: 128}\n"
	}
	return kind{name: "proxy-" + strategy, boxed: true, gates: []gate{{at: "box", config: config,
		svc: "    strategy: " + strategy + "\n"}}}
}

// newMachine builds one; without gates it is the bare one. Cookies for every SYN: the bare
// kernel then answers what it accepts, and keeps nothing.
func newMachine(t *testing.T, boxed bool, gates ...gate) *machine {
	t.Helper()
	return newMachineWith(t, boxed, [][2]string{{"net.ipv4.tcp_syncookies", "2"}}, gates...)
}

// newMachineWith builds one whose server has these settings from the start.
func newMachineWith(t *testing.T, boxed bool, settings [][2]string, gates ...gate) *machine {
	t.Helper()
	tag := fmt.Sprintf("v%d", worlds.Add(1))
	m := &machine{dir: t.TempDir()}
	namespaces := map[string]*rig.Namespace{}
	var client, far *rig.Port
	var instance string
	if boxed {
		p, err := rig.NewProxyTopology("-"+tag, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, p.Close()) })
		client, far, instance = p.ClientPort, p.LegitPort, p.Instance
		namespaces["box"], namespaces["server"] = p.Proxy, p.Server
		m.net = framegen.Network{Service: [2]netip.Addr{p.ServiceAddr(false, 0).Addr(), p.ServiceAddr(true, 0).Addr()},
			OnLink: [2]netip.Prefix{netip.MustParsePrefix("198.18.2.0/30"), netip.MustParsePrefix("fd7d:7467:2::/64")}}
		if onDPDK && len(gates) > 0 {
			if err := p.ForUserspace(); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		h, err := rig.NewHosts(tag)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, h.Close()) })
		client, far, instance = h.ClientPort, h.ServerPort, h.Instance
		namespaces["server"] = h.Server
		m.net = framegen.Network{Service: [2]netip.Addr{h.ServerAddr(false), h.ServerAddr(true)},
			OnLink: [2]netip.Prefix{netip.MustParsePrefix("198.18.3.0/24"), netip.MustParsePrefix("fd7d:7467:4::/64")}}
		routeClients(t, h)
	}
	m.net.Clients = [2]netip.Prefix{netip.MustParsePrefix("198.18.16.0/20"), netip.MustParsePrefix("fd7d:7467:3::/64")}
	m.net.Port = servicePort
	copy(m.net.SourceMAC[:], client.MAC)
	copy(m.net.GateMAC[:], far.MAC)
	for _, s := range settings {
		if err := namespaces["server"].SetSysctl(s[0], s[1]); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if m.listener, err = newListener(namespaces["server"], servicePort); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.listener.close)
	for i, g := range gates {
		m.start(t, namespaces[g.at], fmt.Sprintf("%s-%d", instance, i), g)
	}
	if m.tap, err = newTap(client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, m.tap.close()) })
	return m
}

func closed(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// routeClients makes the hosts' client the router to the frames' sources.
func routeClients(t *testing.T, h *rig.Hosts) {
	t.Helper()
	err := h.Server.Do(func() error {
		var errs []error
		for i, to := range []string{"198.18.16.0/20", "fd7d:7467:3::/64"} {
			_, dst, err := net.ParseCIDR(to)
			errs = append(errs, err, netlink.RouteAdd(&netlink.Route{LinkIndex: h.ServerPort.Index, Dst: dst,
				Gw: h.ClientAddr(i == 1).AsSlice()}))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) start(t *testing.T, ns *rig.Namespace, instance string, g gate) {
	t.Helper()
	config := g.config + fmt.Sprintf("instance: %s\nsecret_file: secret\nservices:\n  - name: web\n    ports: [%d]\n    mode: always\n%s",
		instance, servicePort, g.svc)
	if g.at == "box" { // what the router has behind it
		config += fmt.Sprintf("    prefixes: [%s, \"%s\"]\n", m.net.Service[0], m.net.Service[1])
	}
	if !g.asIs && !strings.Contains(config, "strategy: c") { // those advertise a window of 0
		config += fmt.Sprintf("    window: %d\n", gateWindow)
	}
	world.WriteSecret(t, m.dir)
	in := &world.Instance{T: t, NS: ns, Binary: tidegate, Name: instance, Config: filepath.Join(m.dir, instance+".yaml")}
	m.instances = append(m.instances, in)
	in.Write(config)
	m.processes = append(m.processes, in.Start())
}
