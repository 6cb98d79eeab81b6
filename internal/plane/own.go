// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"net"
	"net/netip"

	"tidegate/internal/plane/hostbpf"
)

// OwnPort is an interface and the destinations of frames to this machine that arrive there.
type OwnPort struct {
	Index    int
	MACs     []net.HardwareAddr // its own first; more than ownMACs are not looked at
	Loopback bool
	Gateway  [2]net.HardwareAddr // IPv4, IPv6: of the only gateway, if it is there (internal/replyroute); else nil
}

const (
	ownMACs  = len(hostbpf.HostXdpTgOwnPort{}.Macs)
	ownSlots = len(hostbpf.HostXdpTgOwnTable{}.V4)
)

// SetOwn sets which SYNs the packet path takes for this machine's own: bpf/lib/own.h. They are
// distinguished when the settings say so (OnlyOwn).
func (p *Plane) SetOwn(ports []OwnPort, local []netip.Prefix) error {
	if p.xdp == nil { // a server behind an edge: its SYNs are answered there
		return nil
	}
	for _, port := range ports {
		if err := p.maps[hostbpf.HostXdpMapTgOwnPorts].Put(uint32(port.Index), ownPort(port)); err != nil {
			return fmt.Errorf("table of MAC addresses: %w", err)
		}
	}
	prefixes, next := p.maps[hostbpf.HostXdpMapTgOwnPrefixes], map[hostbpf.HostXdpTgOwnPrefix]bool{}
	for _, l := range local {
		next[ownPrefix(l)] = true
	}
	for k := range next {
		if !p.own[k] {
			if err := prefixes.Put(k, uint32(1)); err != nil {
				return fmt.Errorf("table of local addresses: %w", err)
			}
		}
	}
	if err := p.maps[VarOwnAddrs].Put(uint32(0), ownAddrs(local)); err != nil {
		return fmt.Errorf("table of local addresses: %w", err)
	}
	for k := range p.own {
		if !next[k] {
			if err := prefixes.Delete(k); err != nil {
				return fmt.Errorf("table of local addresses: %w", err)
			}
		}
	}
	p.own = next
	return nil
}

func ownPort(port OwnPort) (v hostbpf.HostXdpTgOwnPort) {
	if port.Loopback {
		v.IsLoopback = 1
	}
	for i, mac := range port.Gateway {
		v.Gateway[i] = ^uint64(0)
		if len(mac) == 6 {
			v.Gateway[i] = macNumber(mac)
		}
	}
	for i := range v.Macs {
		if i < len(port.MACs) {
			v.Macs[i] = macNumber(port.MACs[i])
		} else {
			v.Macs[i] = v.Macs[0]
		}
	}
	return v
}

// ownAddrs puts addresses into the slots of their last bytes: an address alone in its slot is
// found there. An empty slot holds zeros, which no address of that slot is, except for slot 0:
// there an empty one holds an address of slot 1.
func ownAddrs(local []netip.Prefix) (v hostbpf.HostXdpTgOwnTable) {
	for _, l := range local {
		if !l.IsSingleIP() {
			continue
		}
		k := prefixKey(l, 0)
		last := l.Addr().AsSlice()
		slot := int(last[len(last)-1]) % ownSlots
		if l.Addr().Is4() && v.V4[slot] == 0 {
			v.V4[slot] = uint32(k.Addr.D[0])
		}
		if l.Addr().Is6() && v.V6[slot] == [2]uint64{} {
			v.V6[slot] = k.Addr.D
		}
	}
	if v.V4[0] == 0 {
		v.V4[0] = 1 << 24
	}
	if v.V6[0] == [2]uint64{} {
		v.V6[0][1] = 1 << 56
	}
	return v
}

func ownPrefix(l netip.Prefix) hostbpf.HostXdpTgOwnPrefix {
	bits := l.Bits()
	if l.Addr().Is4() {
		bits += 96
	}
	return hostbpf.HostXdpTgOwnPrefix{Len: uint32(bits), Addr: l.Addr().As16()}
}

// macNumber is a MAC address as the packet path compares it: first byte lowest.
func macNumber(mac []byte) (v uint64) {
	for n, b := range mac {
		v |= uint64(b) << (8 * n)
	}
	return v
}
