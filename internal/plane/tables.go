// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// Target is a service as the maps hold it: its number, addresses, ports and entry. Number 0
// is an exception: its prefixes and ports belong to no service.
type Target struct {
	ID       uint32
	Prefixes []netip.Prefix
	Ports    [][2]uint16 // first and last, both included
	Watched  [][2]uint16 // ports without a listener: the kernel handles their SYNs
	Service  Service
}

// tables is the content of the three look-up maps.
type tables struct {
	services map[uint32]Service
	ports    map[uint32]uint32
	prefixes map[PrefixKey]uint32
}

// build converts targets for the maps. IPv4 and IPv6 catch-all prefixes make the
// port's own entry, if a service has both; everything else is a prefix. (Also
// the longer prefixes of such a service: another's may lie between.)
func build(targets []Target) (tables, error) {
	t := tables{map[uint32]Service{}, map[uint32]uint32{}, map[PrefixKey]uint32{}}
	for _, target := range targets {
		if target.ID != 0 {
			t.services[target.ID] = target.Service
		}
		everywhere := catchesAll(target.Prefixes)
		for _, r := range target.Ports {
			for port := uint32(r[0]); port <= uint32(r[1]); port++ {
				t.ports[port] |= portWatched
				if everywhere {
					t.ports[port] |= target.ID // the only one of this port; 0 until now
				}
				for _, p := range target.Prefixes {
					if everywhere && p.Bits() == 0 {
						continue
					}
					t.ports[port] |= portHasPrefixes
					t.prefixes[prefixKey(p, uint16(port))] = target.ID
				}
			}
		}
		for _, r := range target.Watched {
			for port := uint32(r[0]); port <= uint32(r[1]); port++ {
				t.ports[port] |= portWatched
			}
		}
	}
	return t, nil
}

// Except makes addresses an exception from the services that contain them: a box
// that forwards does not answer for itself, since its own kernel's packets do not pass through it.
func Except(targets []Target, own []netip.Prefix) []Target {
	for _, t := range targets {
		e := Target{Ports: t.Ports}
		for _, o := range own {
			if slices.ContainsFunc(t.Prefixes, func(p netip.Prefix) bool { return p.Bits() <= o.Bits() && p.Overlaps(o) }) {
				e.Prefixes = append(e.Prefixes, o)
			}
		}
		if len(e.Prefixes) > 0 {
			targets = append(targets, e)
		}
	}
	return targets
}

func catchesAll(prefixes []netip.Prefix) bool {
	var v4, v6 bool
	for _, p := range prefixes {
		if p.Bits() == 0 {
			v4 = v4 || p.Addr().Is4()
			v6 = v6 || p.Addr().Is6()
		}
	}
	return v4 && v6
}

func prefixKey(p netip.Prefix, port uint16) PrefixKey {
	var raw [16]byte
	k := PrefixKey{PrefixLen: uint8(p.Bits()), Family: 4, PortBe: port<<8 | port>>8}
	if p.Addr().Is4() {
		a := p.Addr().As4()
		copy(raw[:], a[:])
	} else {
		raw = p.Addr().As16()
		k.Family = 6
	}
	k.Addr.D[0] = binary.LittleEndian.Uint64(raw[:8])
	k.Addr.D[1] = binary.LittleEndian.Uint64(raw[8:])
	return k
}

// prefixLens lists the distinct prefix lengths of one family, longest first.
func prefixLens(prefixes map[PrefixKey]uint32, family uint8) (lens [8]uint8, err error) {
	var distinct []uint8
	for k := range prefixes {
		if k.Family == family && !slices.Contains(distinct, k.PrefixLen) {
			distinct = append(distinct, k.PrefixLen)
		}
	}
	if len(distinct) > len(lens) {
		return lens, fmt.Errorf("%d different prefix lengths for IPv%d; the packet path takes %d",
			len(distinct), family, len(lens))
	}
	slices.Sort(distinct)
	slices.Reverse(distinct)
	for i := range lens {
		lens[i] = prefixLenEnd
		if i < len(distinct) {
			lens[i] = distinct[i]
		}
	}
	return lens, nil
}

// SetServices makes the maps hold exactly targets. Entries change one by one,
// each at once; additions come before removals, so that no service that stays
// is ever without protection. It fills the settings' prefix lengths, and writes
// the settings.
func (p *Plane) SetServices(targets []Target, s *Settings) error {
	if err := checkRoom(p.maps[hostbpf.HostXdpMapTgCounters], targets); err != nil {
		return err
	}
	next, err := build(targets)
	if err != nil {
		return err
	}
	if s.PrefixLensV4, err = prefixLens(next.prefixes, 4); err != nil {
		return err
	}
	if s.PrefixLensV6, err = prefixLens(next.prefixes, 6); err != nil {
		return err
	}
	s.Enforce = 0
	for id, svc := range next.services {
		if enforces(&svc) {
			s.Enforce = 1
		}
		if err := p.SetService(id, svc); err != nil {
			return err
		}
	}
	prefixMap := p.maps[hostbpf.HostXdpMapTgPrefixes]
	for k, id := range next.prefixes {
		if old, ok := p.filled.prefixes[k]; !ok || old != id {
			if err := prefixMap.Put(k, id); err != nil {
				return fmt.Errorf("prefix table: %w", err)
			}
		}
	}
	if err := p.SetSettings(s); err != nil { // the new prefix lengths, before ports point at them
		return err
	}
	if err := p.putPorts(next.ports); err != nil {
		return err
	}
	if err := p.removeOld(next); err != nil {
		return err
	}
	return p.refilled()
}

// refilled tells every CPU that a table has changed: what it has derived from one before does not count from here on (bpf/lib/destination.h).
func (p *Plane) refilled() error {
	if err := p.maps[VarFilling].Put(uint32(0), Filling{Filling: max(rand.Uint64(), 1)}); err != nil {
		return fmt.Errorf("number of the tables' filling: %w", err)
	}
	return nil
}

// removeOld removes what only the earlier tables had.
func (p *Plane) removeOld(next tables) error {
	prefixMap := p.maps[hostbpf.HostXdpMapTgPrefixes]
	for k := range p.filled.prefixes {
		if _, ok := next.prefixes[k]; !ok {
			if err := prefixMap.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("prefix table: %w", err)
			}
		}
	}
	for id := range p.filled.services {
		if _, ok := next.services[id]; !ok {
			if err := p.SetService(id, Service{}); err != nil {
				return err
			}
		}
	}
	p.filled = next
	return nil
}

// SetService writes one service's entry.
func (p *Plane) SetService(id uint32, s Service) error {
	if err := SetEntry(p.maps[VarServices], id, s); err != nil {
		return fmt.Errorf("service table: %w", err)
	}
	if p.filled.services != nil {
		p.filled.services[id] = s
	}
	return nil
}

// Service reads one service's entry, including what the packet path wrote to it.
func (p *Plane) Service(id uint32) (Service, error) {
	return entry[Service](p.maps[VarServices], id)
}

// SetSettings writes the settings.
func (p *Plane) SetSettings(s *Settings) error {
	s.KeySlotMask = uint32(p.keySlots - 1)
	s.Exceptions = 0
	if s.Lists != 0 || s.SynackCostNs != 0 {
		s.Exceptions = 1
	}
	if err := p.mendParts(); err != nil {
		return err
	}
	s.EpochNear = 0
	if s.EpochLenNs != 0 {
		s.EpochNear = (uint64(MonotonicNs()) + s.WallMinusMonoNs) / s.EpochLenNs
	}
	if s.HalfOpenCostNs != 0 {
		var now Settings
		if err := p.maps[VarSettings].Lookup(uint32(0), &now); err == nil {
			s.HalfOpenNextNs = now.HalfOpenNextNs
		}
	}
	if err := p.maps[VarSettings].Put(uint32(0), s); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// PutKey loads the key of one epoch; it replaces that of a long past epoch. What CPUs have derived from keys ends only if it may be from the key that
// this one replaces: a start and a reload load nine hundred keys one after the other, and if each were a change of the tables, packets would meet
// two changes within one look-up.
func (p *Plane) PutKey(epoch uint64, key [16]byte) error {
	k := EpochKey{Epoch: epoch}
	k.Key.K0 = binary.LittleEndian.Uint64(key[:8])
	k.Key.K1 = binary.LittleEndian.Uint64(key[8:])
	slot := uint32(epoch) & uint32(p.keySlots-1)
	var before EpochKey
	if err := p.maps[hostbpf.HostXdpMapTgKeys].Lookup(slot, &before); err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	if before == k {
		return nil
	}
	if err := p.maps[hostbpf.HostXdpMapTgKeys].Put(slot, k); err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	if before.Epoch < epoch {
		return nil // it had no key yet, so nothing is derived from one; a later key in its place is there after the clock was set back
	}
	var now Settings
	if err := p.maps[VarSettings].Lookup(uint32(0), &now); err == nil && epoch > now.EpochNear+2 {
		return nil // a packet of an epoch leaves its number in EpochNear, or the number before
	}
	return p.refilled()
}
