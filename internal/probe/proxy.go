// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"fmt"
	"math/bits"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
)

// proxyChecks checks everything that a proxy needs. It has no sockets: listeners,
// adoption and the sysctls of TCP do not concern it.
func proxyChecks(c *config.Config, privileged bool) []Check {
	_, err := btf.LoadKernelSpec()
	list := []Check{btfCheck(err)}
	list = append(list, proxyProgramChecks(privileged)...)
	list = append(list, mountChecks()[0]) // bpffs; cgroups are the host role's
	list = append(list, interfaceChecks(c.Interfaces, c.XDPMode, c.Dispatcher, c.Role)...)
	list = append(list, tcOrderChecks(c)...)
	ports := lookAtPorts(c.Interfaces)
	list = append(list, portChecks(ports, c)...)
	list = append(list, mtuCheck(ports, c.Proxy.Forwarding))
	if c.Proxy.Forwarding == config.ForwardRouter {
		list = append(list, forwardingChecks(c)...)
		list = append(list, pathChecks(c)...)
	} else {
		list = append(list, bridgeSidesCheck(ports))
	}
	list = append(list, memoryCheck(c, meminfo("MemAvailable")), secretCheck(c.SecretFile))
	return list
}

// proxyProgramChecks passes tiny programs to the kernel's verifier; nothing is attached.
func proxyProgramChecks(privileged bool) []Check {
	const needBPF = "run Linux 6.6 or newer, built with CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_BPF and CONFIG_XDP_SOCKETS"
	if !privileged {
		return programChecks(false)
	}
	helper := func(pt ebpf.ProgramType, fn asm.BuiltinFunc) func() error {
		return func() error { return features.HaveProgramHelper(pt, fn) }
	}
	mapType := func(mt ebpf.MapType) func() error { return func() error { return features.HaveMapType(mt) } }
	var list []Check
	for _, p := range []struct {
		name, found string
		probe       func() error
		means       string
	}{
		{"XDP programs", "can be loaded", func() error { return features.HaveProgramType(ebpf.XDP) }, "SYNs cannot be answered"},
		{"TC programs", "can be loaded", func() error { return features.HaveProgramType(ebpf.SchedCLS) }, "connections to servers cannot be set up"},
		{"clock helper", "bpf_ktime_get_coarse_ns", helper(ebpf.XDP, asm.FnKtimeGetCoarseNs), "the packet path cannot tell the epoch"},
		{"route helper", "bpf_fib_lookup", helper(ebpf.XDP, asm.FnFibLookup), "the packet path cannot ask for routes"},
		{"packet bytes helper", "bpf_xdp_load_bytes", helper(ebpf.XDP, asm.FnXdpLoadBytes), "options out of the usual order cannot be translated"},
		{"second packet helper", "bpf_clone_redirect", helper(ebpf.SchedCLS, asm.FnCloneRedirect), "connections to servers cannot be set up"},
		{"port map", "devmap by hash", mapType(ebpf.DevMapHash), "frames cannot be sent on"},
		{"swap-out maps", "arrays of maps", mapType(ebpf.ArrayOfMaps), "connections and sources cannot be remembered"},
	} {
		list = append(list, judge(p.name, p.found, p.probe(), Fail, p.means, needBPF))
	}
	return append(list, tcxCheck(probeTCX()))
}

// port is the state of one interface in addition to nic.
type port struct {
	nic
	index    int
	ethernet bool
	master   string   // the bridge or bond that it belongs to
	addrs    []string // its own
	gro      bool
	veth     bool
}

// lookAtPorts skips interfaces that do not exist: interfaceChecks reports them.
func lookAtPorts(names []string) []port {
	var ports []port
	for _, name := range names {
		link, err := net.InterfaceByName(name)
		if err != nil {
			continue
		}
		p := port{nic: lookAt(link), index: link.Index, ethernet: len(link.HardwareAddr) == 6}
		if dev, err := netlink.LinkByIndex(link.Index); err == nil {
			p.veth = dev.Type() == "veth"
			if m, err := netlink.LinkByIndex(dev.Attrs().MasterIndex); err == nil && dev.Attrs().MasterIndex != 0 {
				p.master = m.Attrs().Name
			}
			addrs, _ := netlink.AddrList(dev, netlink.FAMILY_ALL)
			for _, a := range addrs {
				if a.IP.IsGlobalUnicast() {
					p.addrs = append(p.addrs, a.IP.String())
				}
			}
		}
		p.gro = featureOn(name, "rx-gro")
		ports = append(ports, p)
	}
	return ports
}

// portChecks reports what else prevents forwarding.
func portChecks(ports []port, c *config.Config) []Check {
	var list []Check
	for _, p := range ports {
		if check := judgePort(p, c); check.Status != OK {
			list = append(list, check)
		}
	}
	return list
}

func judgePort(p port, c *config.Config) Check {
	bad := func(status Status, found, means, fix string) Check {
		return Check{Name: "port " + p.name, Status: status, Found: found, Means: means, Fix: fix}
	}
	native := p.nativeXDP && c.XDPMode != config.XDPGeneric
	switch {
	case !p.ethernet:
		return bad(Fail, "no Ethernet device", "`tidegate run` refuses to start", "name the Ethernet device beneath it, or remove it from `interfaces:`")
	case native && !p.redirects:
		return bad(Fail, "native XDP without XDP_REDIRECT", "frames cannot be sent from it to the other ports: they are lost", "set `xdp_mode: generic`, or use a NIC whose driver redirects")
	case p.master != "":
		return bad(Warn, "belongs to "+p.master, "frames that Tidegate does not take are forwarded by "+p.master+", too",
			fmt.Sprintf("run `ip link set %s nomaster`, or name %s", p.name, p.master))
	case !native && p.gro:
		return bad(Warn, "generic XDP with GRO on", "joined frames cannot be sent on: big transfers stall", fmt.Sprintf("run `ethtool -K %s gro off`", p.name))
	case c.Proxy.Forwarding == config.ForwardBridge && len(p.addrs) > 0:
		return bad(Warn, "has the address "+p.addrs[0], "a bridge's port carries every frame to the other side: this box is not reached at it",
			fmt.Sprintf("run `ip addr del %s dev %s`, and manage the box by another interface", p.addrs[0], p.name))
	}
	return Check{Name: "port " + p.name, Status: OK}
}

// mtuCheck: a router's kernel sends an error when a packet is too big; a bridge cannot.
func mtuCheck(ports []port, f config.Forwarding) Check {
	c := Check{Name: "MTU", Status: OK, Found: "no port to look at"}
	if len(ports) == 0 {
		return c
	}
	low, high := ports[0], ports[0]
	for _, p := range ports[1:] {
		if p.mtu < low.mtu {
			low = p
		}
		if p.mtu > high.mtu {
			high = p
		}
	}
	c.Found = fmt.Sprintf("%d on every port: clients are offered an MSS of at most %d", low.mtu, low.mtu-40)
	if low.mtu == high.mtu {
		return c
	}
	c.Found = fmt.Sprintf("%d on %s, %d on %s: clients are offered an MSS of at most %d", low.mtu, low.name, high.mtu, high.name, low.mtu-40)
	if f == config.ForwardBridge {
		c.Status, c.Means = Warn, "packets larger than the smaller MTU are lost, without an error message"
		c.Fix = fmt.Sprintf("run `ip link set %s mtu %d`", high.name, low.mtu)
	}
	return c
}

// bridgeSidesCheck: a bridge has two sides by construction, if both are up.
func bridgeSidesCheck(ports []port) Check {
	c := Check{Name: "both directions", Status: OK}
	var up []string
	for _, p := range ports {
		if p.up {
			up = append(up, p.name)
		}
	}
	if len(up) == 2 {
		c.Found = fmt.Sprintf("%s and %s are up; that no other way leads round the box is not to be seen from here", up[0], up[1])
		return c
	}
	return Check{Name: c.Name, Status: Fail, Found: fmt.Sprintf("%d of 2 ports are up", len(up)),
		Means: "no frame gets from one side to the other", Fix: "run `ip link set IFACE up` for the port that is down"}
}

// The memory of a proxy's tables, in bytes: what the kernel (6.18, hashtab.c) accounts
// for one element without preallocation (its header, key and value in words, a
// list node), and for a bucket. internal/lab's test compares the first with measurements.
const (
	elementBytes = 48 + 8
	bucketBytes  = 16

	Flow4Bytes  = elementBytes + 16 + 32
	Flow6Bytes  = elementBytes + 40 + 32
	SourceBytes = elementBytes + 8 + 8

	closedBytes = 65536 * (Flow4Bytes + Flow6Bytes + 2*bucketBytes)
)

// memoryCheck compares full tables with free memory. Buckets are allocated at the
// start, elements on demand; during a swap there are three tables.
func memoryCheck(c *config.Config, availableBytes uint64) Check {
	buckets := func(entries int) uint64 { return bucketBytes << bits.Len(uint(entries-1)) }
	flows, sources := uint64(c.Proxy.MaxFlows), uint64(c.Proxy.MaxSources)
	atOnce := 3*(2*buckets(c.Proxy.MaxFlows)+buckets(c.Proxy.MaxSources)) + closedBytes
	full := atOnce + 2*(flows*(Flow4Bytes+Flow6Bytes)+sources*SourceBytes)
	check := Check{Name: "memory", Status: OK, Found: fmt.Sprintf("%d MiB at the start, %d MiB with all tables full (max_flows %d, max_sources %d); %d MiB available",
		atOnce>>20, full>>20, flows, sources, availableBytes>>20)}
	const fix = "lower `max_flows` and `max_sources`, or add memory"
	switch {
	case availableBytes == 0:
		check.Status, check.Means, check.Fix = Warn, "whether the tables fit is not known", "mount /proc"
	case atOnce > availableBytes:
		check.Status, check.Means, check.Fix = Fail, "`tidegate run` cannot make its tables", fix
	case full > availableBytes:
		check.Status, check.Means, check.Fix = Warn, "the machine runs out of memory before the tables are full", fix
	}
	return check
}

// meminfo reads one line of /proc/meminfo, in bytes; 0 if it cannot.
func meminfo(name string) uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) >= 2 && fields[0] == name+":" {
			kib, _ := strconv.ParseUint(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
