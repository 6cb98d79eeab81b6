// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// newGate loads the host gate's programs as `tidegate run` would fill them, with
// `services` services on port 80, each for one address; the lab's addresses are
// the last one's. 0: one service for every address.
func newGate(services int) (*plane.Plane, error) {
	p, err := plane.Load(plane.Options{KeySlots: 1024})
	if err != nil {
		return nil, err
	}
	var s plane.Settings
	raw := make([]byte, 8*len(s.FilterKeys))
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	for i := range s.FilterKeys {
		s.FilterKeys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	epoch := 8 * time.Second
	s.EpochLenNs = uint64(epoch)
	s.WallMinusMonoNs = plane.WallMinusMonoNs(time.Now())
	s.FilterKeepTicks = 9
	var secret keys.Secret
	_, _ = rand.Read(secret[:])
	for _, n := range keys.Epochs(time.Now(), epoch, time.Hour) {
		if err := p.PutKey(n, secret.EpochKey(n)); err != nil {
			p.Close()
			return nil, err
		}
	}
	if err := p.SetServices(benchServices(services), &s); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

var labAddresses = []netip.Addr{netip.MustParseAddr("198.18.0.80"), netip.MustParseAddr("fd7d:7467::80")}

// servers are the networks that a box protects: as its users have it, not all there are. `everywhere`: all.
func servers(box *rig.ProxyTopology, everywhere bool) (nets []netip.Prefix) {
	if everywhere {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	for ipv6, bits := range map[bool]int{false: 24, true: 64} {
		nets = append(nets, netip.PrefixFrom(box.ServiceAddr(ipv6, 80).Addr(), bits).Masked())
	}
	return nets
}

func benchServices(n int) []plane.Target {
	entry := plane.Service{MssV4: 1460, MssV6: 1440, Window: 64240, Wscale: 7, Sack: 1,
		Timestamps: 1, Ecn: 1, Mode: plane.ModeAlways}
	if n == 0 {
		return []plane.Target{{ID: 1, Ports: [][2]uint16{{80, 80}}, Service: entry,
			Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}}
	}
	targets := make([]plane.Target, 0, n)
	addr := netip.MustParseAddr("10.0.0.1")
	for id := 1; id < n; id++ {
		targets = append(targets, plane.Target{ID: uint32(id), Ports: [][2]uint16{{80, 80}},
			Service: entry, Prefixes: []netip.Prefix{netip.PrefixFrom(addr, 32)}})
		addr = addr.Next()
	}
	last := plane.Target{ID: uint32(n), Ports: [][2]uint16{{80, 80}}, Service: entry}
	for _, a := range labAddresses {
		last.Prefixes = append(last.Prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return append(targets, last)
}

// testPort is the interface of test runs, the MAC address that synFrame sends to, and a gateway.
var testPort = plane.OwnPort{Index: 1, MACs: []net.HardwareAddr{{2, 0, 0, 0, 0, 2}},
	Gateway: [2]net.HardwareAddr{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1}}}

// ownsAddresses makes the gate check whether a SYN is for this machine, as on any host: the lab's addresses at this port.
func ownsAddresses(gate *plane.Plane, port plane.OwnPort) error {
	var local []netip.Prefix
	for _, a := range labAddresses {
		local = append(local, netip.PrefixFrom(a, a.BitLen()))
	}
	if err := gate.SetOwn([]plane.OwnPort{port}, local); err != nil {
		return err
	}
	var s plane.Settings
	if err := gate.Map(plane.VarSettings).Lookup(uint32(0), &s); err != nil {
		return err
	}
	s.OnlyOwn = 1
	return gate.SetSettings(&s)
}
