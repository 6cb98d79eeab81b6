// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"net"

	"tidegate/internal/instance"
)

// system holds the values of this machine and network namespace that matter to a
// SYN-ACK or to the socket filter.
type system struct {
	mtu             int // smallest of the interfaces
	tcpRmem         [3]int
	rmemMax         int
	windowScaling   bool
	sack            bool
	timestamps      bool
	ecn             bool
	labels          bool // of IPv6 flows
	syncookies      int
	netnsCookie     uint64
	filterKeepTicks uint16
	forwards        bool
}

const (
	filterTickSeconds = 17  // core/tuple_filter.h: 2^34 ns
	timeWaitSeconds   = 60  // TCP_TIMEWAIT_LEN, include/net/tcp.h
	minMTU            = 576 // RFC 791: below this the values are meaningless
	defaultRmemMax    = 212992
	defaultRmem       = 131072 // tcp_rmem[1] of a kernel with default settings
)

func readSystem(interfaces []string) (system, error) {
	s := system{mtu: 65535}
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return s, fmt.Errorf("interface %s: not found; `ip link` lists those of this network namespace", name)
		}
		s.mtu = min(s.mtu, max(dev.MTU, minMTU))
	}
	var err error
	if s.netnsCookie, err = instance.NetnsCookie(); err != nil {
		return s, err
	}
	rmem, err := instance.SysctlInts("net/ipv4/tcp_rmem", 3)
	if err != nil {
		return s, err
	}
	s.tcpRmem = [3]int{rmem[0], rmem[1], rmem[2]}
	s.rmemMax = defaultRmemMax
	if v, err := instance.SysctlInts("net/core/rmem_max", 1); err == nil { // not shown in every namespace
		s.rmemMax = v[0]
	}
	ints := map[string]int{}
	for _, name := range []string{"tcp_window_scaling", "tcp_sack", "tcp_timestamps", "tcp_ecn", "tcp_syncookies", "tcp_fin_timeout"} {
		v, err := instance.SysctlInts("net/ipv4/"+name, 1)
		if err != nil {
			return s, err
		}
		ints[name] = v[0]
	}
	s.windowScaling = ints["tcp_window_scaling"] != 0
	s.sack = ints["tcp_sack"] != 0
	s.timestamps = ints["tcp_timestamps"] != 0
	s.ecn = ints["tcp_ecn"] != 0
	s.syncookies = ints["tcp_syncookies"]
	s.labels = instance.LabelsFlows()
	s.forwards = forwards(interfaces)
	// A closed socket waits in FIN-WAIT-2 and then in TIME-WAIT; one tick more,
	// because the first one is cut short.
	s.filterKeepTicks = uint16((ints["tcp_fin_timeout"]+timeWaitSeconds)/filterTickSeconds + 2)
	return s, nil
}

// watchSystem checks whether values of interfaces or sysctls have changed; it returns
// true if the services' entries have to be rewritten. What cannot be read
// stays as it was.
func (g *gate) watchSystem() (changed bool) {
	now, err := readSystem(g.cfg.Interfaces)
	if err != nil {
		if !g.badSys {
			g.log.Error("cannot read the system's TCP settings; the previous ones stay in use", "error", err)
		}
		g.badSys = true
		return false
	}
	g.badSys = false
	if now == g.system {
		return false
	}
	if now.syncookies == 0 && g.system.syncookies != 0 && !g.translates() && !g.part {
		g.log.Error("SYNs go to the kernel", "error", errSyncookies)
	}
	g.log.Info("the system's TCP settings have changed; SYN-ACKs now use them", "mtu", now.mtu)
	g.system = now
	g.services.rmemSeen[now.tcpRmem[1]] = true
	g.settings.FilterKeepTicks = max(g.settings.FilterKeepTicks, now.filterKeepTicks)
	return true
}
