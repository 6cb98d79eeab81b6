// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/schema"
)

// Place is where the packet path of mode auto counts an address of a service: core/automatic.h.
type Place struct {
	At               int
	SYNs, Handshakes uint64
	Service          uint32
	Prefix           netip.Prefix // the last one that was counted there
}

// Places are those with hits.
func (p *Plane) Places() ([]Place, error) {
	m := p.maps[hostbpf.HostXdpMapTgPlaces]
	if m == nil {
		return nil, errors.New("this packet path counts no places")
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	n := int(m.MaxEntries())
	keys, rows := make([]uint32, n), make([]hostbpf.HostXdpTgPlace, n*cpus)
	var cursor ebpf.MapBatchCursor
	got, err := m.BatchLookup(&cursor, keys, rows, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("places: %w", err)
	}
	var list []Place
	for i := range got {
		place := Place{At: int(keys[i])}
		for _, row := range rows[i*cpus : (i+1)*cpus] {
			place.SYNs += row.Syns
			place.Handshakes += row.Handshakes
			if row.Family != 0 {
				place.Service, place.Prefix = row.Service, placePrefix(row.Family, row.Prefix)
			}
		}
		if place.SYNs > 0 {
			list = append(list, place)
		}
	}
	return list, nil
}

func placePrefix(family uint32, prefix uint64) netip.Prefix {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], prefix)
	if family == 4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), 32)
	}
	return netip.PrefixFrom(netip.AddrFrom16(raw), 64)
}

// AnswerPlace turns answering of SYNs to a place on or off.
func (p *Plane) AnswerPlace(at int, on bool) error {
	var value uint32
	if on {
		value = 1
	}
	if err := p.maps[hostbpf.HostXdpMapTgPlacesOn].Put(uint32(at), value); err != nil {
		return fmt.Errorf("places: %w", err)
	}
	return nil
}

// ReadCounters are the counters of one service.
func (p *Plane) ReadCounters(id uint32) ([schema.NumCounters]uint64, error) {
	return ReadCounters(p.maps[hostbpf.HostXdpMapTgCounters], id)
}

// SetEnforce sets in the settings whether anything is answered.
func (p *Plane) SetEnforce(s *Settings) {
	s.Enforce = 0
	for _, svc := range p.filled.services {
		if enforces(&svc) {
			s.Enforce = 1
		}
	}
}

// enforces is tg_service_enforces (core/service.h).
func enforces(s *Service) bool { return s.Mode == ModeAlways || s.Automatic != 0 && s.Verify != 0 }
