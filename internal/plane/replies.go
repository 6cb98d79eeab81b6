// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/replyroute"
)

// SYNs a machine leaves to the kernel when it is not known where answers go:
// docs/host.md. The rates are small, so that a flood does not take this path.
const (
	unresolvedPerSecond = 20  // of next hops whose MAC address the kernel must ask for
	unroutedPerSecond   = 200 // of answers whose route leads elsewhere or is unknown
)

// domainBySource is TG_DOMAIN_BY_SOURCE.
const domainBySource = ^uint32(0)

// replies is what SetReplies has put into the maps.
type replies struct {
	from, routes map[hostbpf.HostXdpTgReplyPrefix]uint32
	near         map[hostbpf.HostXdpTgReplyNeighbourKey]hostbpf.HostXdpTgReplyNeighbour
	hops         []hostbpf.HostXdpTgReplyHop
	ports        map[uint32]hostbpf.HostXdpTgReplyPort
}

// AnswersSYNs reports whether this plane has a program that does.
func (p *Plane) AnswersSYNs() bool { return p.maps[hostbpf.HostXdpMapTgReplyPorts] != nil }

// SetReplies writes where answers go: bpf/lib/reply.h. cpus share the allowances. It
// must be called again within half a minute.
func (p *Plane) SetReplies(m *replyroute.Model, cpus int) error {
	now := repliesOf(m, cpus)
	// Hops before the routes that lead to them, and what is added before what is removed.
	errs := []error{
		putHops(p.maps[hostbpf.HostXdpMapTgReplyHops], p.replies.hops, now.hops),
		putMissing(p.maps[hostbpf.HostXdpMapTgReplyNear], p.replies.near, now.near),
		putMissing(p.maps[hostbpf.HostXdpMapTgReplyRoutes], p.replies.routes, now.routes),
		putMissing(p.maps[hostbpf.HostXdpMapTgReplyFrom], p.replies.from, now.from),
		putMissing(p.maps[hostbpf.HostXdpMapTgReplyPorts], p.replies.ports, now.ports),
		removeGone(p.maps[hostbpf.HostXdpMapTgReplyFrom], p.replies.from, now.from),
		removeGone(p.maps[hostbpf.HostXdpMapTgReplyRoutes], p.replies.routes, now.routes),
		removeGone(p.maps[hostbpf.HostXdpMapTgReplyNear], p.replies.near, now.near),
	}
	if err := errors.Join(errs...); err != nil {
		p.replies = replies{} // all of it again, the next time
		return fmt.Errorf("table of routes: %w", err)
	}
	p.replies = now
	return nil
}

func repliesOf(m *replyroute.Model, cpus int) replies {
	r := replies{from: map[hostbpf.HostXdpTgReplyPrefix]uint32{}, routes: map[hostbpf.HostXdpTgReplyPrefix]uint32{},
		near:  map[hostbpf.HostXdpTgReplyNeighbourKey]hostbpf.HostXdpTgReplyNeighbour{},
		ports: map[uint32]hostbpf.HostXdpTgReplyPort{}}
	domains := map[replyroute.Family][]uint32{}
	for _, f := range m.From {
		family := replyroute.Family(4)
		if f.Prefix.Addr().Is6() {
			family = 6
		}
		domains[family] = append(domains[family], f.Domain)
		r.from[replyPrefix(uint32(family), f.Prefix)] = f.Domain
	}
	for _, route := range m.Routes {
		r.routes[replyPrefix(route.Domain, route.Prefix)] = uint32(route.Hop)
	}
	for _, h := range m.Hops {
		r.hops = append(r.hops, replyHop(h))
	}
	for _, n := range m.Neighbours {
		v := hostbpf.HostXdpTgReplyNeighbour{Mac: macNumber(n.MAC[:]), Sure: uint64(flag(n.Sure))}
		r.near[hostbpf.HostXdpTgReplyNeighbourKey{Dev: uint32(n.Dev), Addr: n.Addr.As16()}] = v
	}
	for index, port := range m.Ports {
		v := hostbpf.HostXdpTgReplyPort{Segment: uint32(port.Segment), Strict: uint32(flag(port.Strict)),
			TaggedUnknown: uint32(flag(port.Tagged != "")),
			UpdatedNs:     uint64(MonotonicNs()), NeighbourCostNs: uint64(cpus) * 1e9 / unresolvedPerSecond, RouteCostNs: uint64(cpus) * 1e9 / unroutedPerSecond}
		for i, f := range replyroute.Families {
			switch {
			case port.Unknown[i] != "" || m.Unknown[f] != "": // TG_DOMAIN_UNKNOWN
			case port.Domain[i] != 0:
				v.Domain[i] = port.Domain[i]
			case len(domains[f]) == 0:
			case len(domains[f]) == 1:
				v.Domain[i] = domains[f][0]
			default:
				v.Domain[i] = domainBySource
			}
		}
		r.ports[uint32(index)] = v
	}
	return r
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func replyPrefix(domain uint32, p netip.Prefix) (k hostbpf.HostXdpTgReplyPrefix) {
	k.Len, k.Domain = uint32(32+p.Bits()), domain
	copy(k.Addr[:], p.Addr().AsSlice())
	return k
}

func replyHop(h replyroute.Hop) (v hostbpf.HostXdpTgReplyHop) {
	v.Kind, v.Dev, v.Count = uint32(h.Kind), uint32(h.Dev), uint32(len(h.Paths))
	for i, p := range h.Paths {
		v.Paths[i].Mac, v.Paths[i].Segment, v.Paths[i].Vid = macNumber(p.MAC[:]), uint32(p.Segment), uint32(p.VID)
		v.Paths[i].Dev, v.Paths[i].Covered = uint32(p.Dev), uint32(flag(p.Covered))
	}
	return v
}

func putHops(m *ebpf.Map, before, now []hostbpf.HostXdpTgReplyHop) error {
	for i, h := range now {
		if i < len(before) && before[i] == h {
			continue
		}
		if err := m.Put(uint32(i), h); err != nil {
			return err
		}
	}
	return nil
}

func putMissing[K, V comparable](m *ebpf.Map, before, now map[K]V) error {
	for k, v := range now {
		if old, there := before[k]; there && old == v {
			continue
		}
		if err := m.Put(k, v); err != nil {
			return err
		}
	}
	return nil
}

func removeGone[K comparable, V any](m *ebpf.Map, before, now map[K]V) error {
	for k := range before {
		if _, there := now[k]; there {
			continue
		}
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}
