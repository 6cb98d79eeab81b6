// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf/btf"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

// The requirements of the two halves of the split proxy: an edge is a box that forwards, as a
// proxy is; a server adopts as a host does, or translates, or both.

// edgeChecks checks everything that an edge needs.
func edgeChecks(c *config.Config, privileged bool) []Check {
	box := *c
	box.Proxy.Forwarding = c.Edge.Forwarding // ports are checked as for a proxy
	_, err := btf.LoadKernelSpec()
	list := append([]Check{btfCheck(err)}, proxyProgramChecks(privileged)...)
	list = append(list, acceptChecks(privileged, c.Role)...)
	list = append(list, mountChecks()[0])
	list = append(list, interfaceChecks(c.Interfaces, c.XDPMode, c.Dispatcher, c.Role)...)
	ports := lookAtPorts(c.Interfaces)
	list = append(list, portChecks(ports, &box)...)
	list = append(list, mtuCheck(ports, c.Edge.Forwarding))
	if c.Edge.Forwarding == config.ForwardRouter {
		list = append(list, forwardingChecks(c)...)
		list = append(list, pathChecks(c)...)
	} else {
		list = append(list, bridgeSidesCheck(ports))
	}
	list = append(list, filterCheck(c.Edge.FilterBits, meminfo("MemAvailable")), skewCheck(c))
	for _, p := range c.Tagged.Peers {
		list = append(list, judgeReach("peer "+p.String(), findRoute(single(p), p, nil), "it does not hear which flows this edge has verified"))
	}
	return append(list, secretCheck(c.SecretFile))
}

// serverChecks checks everything that a server needs.
func serverChecks(c *config.Config, privileged bool) []Check {
	var list []Check
	for _, check := range kernelChecks() {
		list = append(list, withoutAdoption(check, c.Server.Takeover))
	}
	list = append(list, programChecks(privileged)...)
	list = append(list, acceptChecks(privileged, c.Role)...)
	list = append(list, mountChecks()...)
	for _, check := range sysctlChecks() {
		list = append(list, withoutAdoption(check, c.Server.Takeover))
	}
	list = append(list, rfc1337Check(c.Server.Takeover))
	role := c.Role
	if c.Server.Takeover == config.TakeoverAdopt && c.Server.WithoutEdge != config.WithoutEdgeAnswer {
		role = config.RoleHost // no XDP program, so that no answer of it can vanish
	}
	list = append(list, interfaceChecks(c.Interfaces, c.XDPMode, c.Dispatcher, role)...)
	list = append(list, tcOrderChecks(c)...)
	if c.Server.Takeover != config.TakeoverAdopt {
		list = append(list, splitTableCheck(c.Tagged.MaxConnections, meminfo("MemAvailable")))
	}
	for _, e := range c.Tagged.Edges {
		for _, a := range []netip.Addr{e.V4, e.V6} {
			if a.IsValid() {
				list = append(list, judgeReach(fmt.Sprintf("edge %d, %s", e.ID, a), findRoute(single(a), a, nil), "it gets no confirmations, and tags every segment"))
			}
		}
	}
	list = append(list, skewCheck(c), secretCheck(c.SecretFile))
	return append(list, takeoverChecks(c)...)
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// withoutAdoption: a server that translates does not fail for lack of what only adoption needs.
func withoutAdoption(c Check, takeover config.Takeover) Check {
	if c.Status == OK || takeover == config.TakeoverAdopt || (c.Name != "kernel" && c.Name != "adoption kfunc" && c.Name != "net.ipv4.tcp_syncookies") {
		return c
	}
	if takeover == config.TakeoverTranslate {
		return Check{Name: c.Name, Status: OK, Found: c.Found + "; takeover: translate does without"}
	}
	c.Status, c.Means, c.Fix = Warn, "takeover: auto translates every connection", strings.TrimPrefix(c.Fix, orAuto)
	return c
}

// rfc1337Check: an old connection in TIME-WAIT is ended by a RST (docs/edge.md).
func rfc1337Check(takeover config.Takeover) Check {
	const name = "net.ipv4.tcp_rfc1337"
	off, known := sysctlOff(name)
	c := Check{Name: name, Status: OK, Found: "0"}
	switch {
	case takeover == config.TakeoverTranslate:
		c.Found = "takeover: translate does not need it"
	case !known:
		c.Status, c.Found, c.Means, c.Fix = Warn, "cannot be read", "if it is 1, ports in TIME-WAIT cannot be reused", "mount /proc"
	case !off:
		c.Status, c.Found, c.Means, c.Fix = Warn, "1", "a client's port that is in TIME-WAIT here cannot be reused for a minute", "run `sysctl -w net.ipv4.tcp_rfc1337=0`"
	}
	return c
}

// filterCheck: three partitions of four generations, allocated at the start.
func filterCheck(filterBits int, availableBytes uint64) Check {
	bytes := uint64(3) << filterBits / 2
	return judgeMemory("filter", bytes, availableBytes, "filter_bits")
}

// splitTableCheck: two places of 32 bytes for each connection, rounded up to a power of
// two, allocated at the start.
func splitTableCheck(connections int, availableBytes uint64) Check {
	bytes := uint64(128)
	for bytes < uint64(connections)*64 {
		bytes *= 2
	}
	return judgeMemory("connection table", bytes, availableBytes, "max_connections")
}

func judgeMemory(name string, bytes, available uint64, field string) Check {
	c := Check{Name: name, Status: OK, Found: fmt.Sprintf("%d KiB; %d MiB available", bytes>>10, available>>20)}
	switch {
	case available == 0:
		c.Status, c.Means, c.Fix = Warn, "whether it fits is not known", "mount /proc"
	case bytes > available:
		c.Status, c.Means, c.Fix = Fail, "`tidegate run` cannot make it", "lower `"+field+"`, or add memory"
	}
	return c
}

// skewCheck reports the tolerated difference of clocks, which cannot be measured from here.
func skewCheck(c *config.Config) Check {
	found := fmt.Sprintf("may differ from the other machines' by %s either way (clock_skew)", c.ClockSkew)
	if c.Edge.Protocol == config.ProtocolTagged || c.Server.Protocol == config.ProtocolTagged {
		found += fmt.Sprintf(", an edge's from a server's by a whole epoch, %s (tagged)", c.Epoch)
	}
	return Check{Name: "clock", Status: OK, Found: found}
}

// judgeReach judges the route to the other half of this fleet.
func judgeReach(name string, w kernelRoute, means string) Check {
	c := Check{Name: name, Status: OK}
	switch {
	case w.err != nil:
		return Check{Name: name, Status: Fail, Found: "no route: " + firstLine(w.err), Means: means, Fix: "add a route to it, or correct the address"}
	case w.local:
		return Check{Name: name, Status: Fail, Found: "is this machine's own address", Means: means, Fix: "correct the address"}
	case w.neighbour == "does not answer":
		return Check{Name: name, Status: Warn, Found: "on " + w.dev + ", does not answer", Means: means, Fix: "see that it is up and wired: `ip neigh show dev " + w.dev + "`"}
	}
	c.Found = "leaves by " + w.dev
	return c
}

// takeoverChecks: the listeners, as this server takes their connections over.
func takeoverChecks(c *config.Config) []Check {
	if c.Server.Takeover == config.TakeoverAdopt {
		list := serviceChecks(c.Services, c.Interfaces)
		for i := range list {
			if list[i].Status == Warn && list[i].Fix == mendListener {
				list[i].Means = "the kernel does not adopt for such listeners: connections that edges have verified are reset"
			}
		}
		return list
	}
	all, err := listeners.On(c.Interfaces)
	if err != nil {
		return serviceChecks(c.Services, c.Interfaces) // says why
	}
	var list []Check
	for _, s := range c.Services {
		list = append(list, judgeTakeover(s, listeners.State(all, s.Prefixes, s.Ports), c.Server))
	}
	return list
}

func judgeTakeover(s config.Service, r listeners.Report, server config.Server) Check {
	c := Check{Name: "service " + s.Name, Status: OK}
	adopts := server.Takeover == config.TakeoverAuto && server.Protocol != config.ProtocolTagged
	switch {
	case s.Mode == config.ModeOff:
		c.Found = "off"
	case r.Status == listeners.None:
		c.Found = "nothing listens here: translated, for a guest behind this machine; its own clients are refused"
	case r.Status == listeners.MPTCP || r.Status == listeners.Above:
		c.Found = unfitListener(r) + ": translated"
	case adopts:
		c.Found = "listens on " + some(r.Listeners) + ": adopted, unless a row `takeover` says otherwise"
	default:
		c.Found = "listens on " + some(r.Listeners) + ": translated"
	}
	return c
}
