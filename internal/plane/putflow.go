// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"sync/atomic"

	"tidegate/internal/plane/proxybpf"
)

// PutFlows4 puts connections over IPv4 into the active table as the packet path does: noted, and without copies of earlier ones. For
// tests and benchmarks.
func (p *Proxy) PutFlows4(keys []FlowKey4, flows []Flow) error {
	hashes := make([]uint32, len(keys))
	for i, k := range keys {
		hashes[i] = presenceEnd(presenceBegin(uint64(k.Client), k.Ports, p.own.PresenceSalt), uint64(k.Server))
	}
	return p.putFlows(proxybpf.ProxyXdpMapTgFlows4, hashes, keys, flows)
}

// PutFlows6 does the same over IPv6.
func (p *Proxy) PutFlows6(keys []FlowKey6, flows []Flow) error {
	hashes := make([]uint32, len(keys))
	for i, k := range keys {
		half := func(words [4]uint32, at int) uint64 { return uint64(words[at]) | uint64(words[at+1])<<32 }
		h := presenceBegin(half(k.Client, 0), k.Ports, p.own.PresenceSalt)
		h = (h ^ half(k.Client, 2) ^ half(k.Server, 2)) * mix3
		hashes[i] = presenceEnd(h, half(k.Server, 0))
	}
	return p.putFlows(proxybpf.ProxyXdpMapTgFlows6, hashes, keys, flows)
}

func (p *Proxy) putFlows(table string, hashes []uint32, keys, flows any) error {
	if err := p.eachPresence(func(words []uint64) {
		for _, h := range hashes {
			note(words, presenceFlows, h, uint32(p.own.FlowsGen))
		}
	}); err != nil {
		return err
	}
	m, err := p.Active(table)
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := m.BatchUpdate(keys, flows, nil); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return p.ForgetNear()
}

// Multipliers of core/base.h.
const mix1, mix2, mix3 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb

// presenceBegin and presenceEnd are those of tg_presence_flow, core/proxy_keys.h.
func presenceBegin(client uint64, ports uint32, salt uint64) uint64 {
	return (client^salt)*mix1 + uint64(ports)
}

func presenceEnd(h, server uint64) uint32 { return uint32(((h ^ h>>32) + server) * mix2 >> 32) }

// note is tg_presence_note of bpf/lib/proxy_presence.h.
func note(words []uint64, table, hash, generation uint32) {
	const bits = 21 // TG_PRESENCE_BITS
	front := presenceTables*presenceWords + table*presenceFront + hash>>(32-bits+presenceNear+6)
	atomic.OrUint64(&words[front*2+generation&1], 1<<(hash>>(32-bits+presenceNear)&63))
	atomic.OrUint64(&words[(table*presenceWords+hash>>(32-bits+6))*2+generation&1], 1<<(hash>>(32-bits)&63))
}
