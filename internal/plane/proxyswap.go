// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/proxybpf"
)

// shareCells of core/share.h: cells of one family and generation; the first counts all.
const shareCells = 16 + 2<<14

// SwapFlows makes the flow tables' active maps history, and drops the former
// history.
func (p *Proxy) SwapFlows() error {
	return p.swap(presenceFlows, &p.own.FlowsGen, proxybpf.ProxyXdpMapTgFlows4, proxybpf.ProxyXdpMapTgFlows6)
}

// ForgetFlows removes all flows, including those that wait for a place, and their sources' shares. It walks
// tables, and the kernel frees others for a while after: for tests and benchmarks.
func (p *Proxy) ForgetFlows() error {
	return errors.Join(p.SwapFlows(), p.SwapFlows(), p.ForgetWaiting())
}

// ForgetWaiting removes the flows that wait for a place, and their sources' shares, likewise.
func (p *Proxy) ForgetWaiting() error {
	if err := errors.Join(
		emptied[proxybpf.ProxyXdpTgFlowKey4](p.maps[proxybpf.ProxyXdpMapTgWaiting4]),
		emptied[proxybpf.ProxyXdpTgFlowKey6](p.maps[proxybpf.ProxyXdpMapTgWaiting6])); err != nil {
		return fmt.Errorf("flows that wait: %w", err)
	}
	var cells, zeros [1024]uint32
	for first := uint32(0); first < 2*shareCells; first += uint32(len(cells)) {
		n := min(2*shareCells-first, uint32(len(cells)))
		for i := range n {
			cells[i] = first + i
		}
		if _, err := p.maps[proxybpf.ProxyXdpMapTgLatelyCells].BatchUpdate(cells[:n], zeros[:n], nil); err != nil {
			return fmt.Errorf("what sources have brought lately: %w", err)
		}
	}
	return nil
}

// emptied deletes all entries of a table of flows.
func emptied[Key any](m *ebpf.Map) error {
	const atOnce = 256 // more than stand in any bucket
	var cursor ebpf.MapBatchCursor
	keys, values := make([]Key, atOnce), make([]proxybpf.ProxyXdpTgFlow, atOnce)
	for {
		if _, err := m.BatchLookupAndDelete(&cursor, keys, values, nil); err != nil {
			if errors.Is(err, ebpf.ErrKeyNotExist) { // that was all
				return nil
			}
			return err
		}
	}
}

// SwapSources does the same for the whitelist.
func (p *Proxy) SwapSources() error {
	return p.swap(presenceSources, &p.own.SourcesGen, proxybpf.ProxyXdpMapTgWhite, proxybpf.ProxyXdpMapTgWhite6)
}

// generationSwapping is TG_GEN_SWAPPING of bpf/lib/proxy_maps.h.
const generationSwapping = 2

// swap replaces two entries of each outer map; the packet path sees the old or the
// new, and waits for nothing. New maps are created first; the kernel frees the old
// history later. The order ensures that the presence bits of whatever can be found are set at any moment: those of the new generation in the
// new active map, those of the one before in history. While a program may see the new generation and still the old active map, or may have
// seen that and not ended, it notes what it puts there in both.
func (p *Proxy) swap(presence uint32, generation *uint8, names ...string) error {
	fresh := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range fresh {
			m.Close()
		}
	}()
	for _, name := range names {
		m, err := ebpf.NewMap(p.inner[name])
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		fresh[name] = m
	}
	if p.final {
		for _, name := range names {
			if err := p.pinSlot(name, fresh[name]); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if err := p.maps[name].Put(slotHistory, p.slots[name][0]); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	next := *generation&1 ^ 1
	if err := p.clearPresence(presence, uint32(next)); err != nil {
		return err
	}
	if presence == presenceFlows {
		if err := p.clearShares(uint32(next)); err != nil {
			return err
		}
	}
	*generation = next | generationSwapping
	if presence == presenceFlows {
		p.own.FlowsTurn++ // and once more when the swap has ended
	}
	if err := p.SetProxy(p.own); err != nil {
		return err
	}
	// The packet path asks the presence bits of the generation before for what is in history, so no program may see the new active
	// map and still the old generation: an outer map's update returns when programs that began before it have ended.
	for _, name := range names {
		if err := p.maps[name].Put(slotHistory, p.slots[name][0]); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	for name, m := range fresh {
		if err := p.maps[name].Put(slotActive, m); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		before := p.slots[name]
		p.slots[name] = [2]*ebpf.Map{m, before[0]}
		delete(fresh, name)
		before[1].Close()
	}
	*generation = next // all programs see the new active maps now, for the same reason
	if presence == presenceFlows {
		p.own.FlowsTurn++
	}
	if err := p.SetProxy(p.own); err != nil {
		return err
	}
	return p.pinSlots()
}

// clearPresence clears one generation of one table.
func (p *Proxy) clearPresence(table, generation uint32) error {
	return p.eachPresence(func(words []uint64) {
		clearPairs(words, table*presenceWords, presenceWords, generation)
		clearPairs(words, presenceTables*presenceWords+table*presenceFront, presenceFront, generation)
	})
}

func clearPairs(words []uint64, from, n, generation uint32) {
	for pair := from; pair < from+n; pair++ {
		atomic.StoreUint64(&words[pair*2+generation&1], 0)
	}
}

// allPresent has every flow and source looked up until the tables have been swapped twice: tables were taken over, and the bits were not.
func (p *Proxy) allPresent() error {
	return p.eachPresence(func(words []uint64) {
		for at := range words {
			atomic.StoreUint64(&words[at], math.MaxUint64)
		}
	})
}

// eachPresence shows the presence bits, of each word of a table its two generations, as the packet path sees them.
func (p *Proxy) eachPresence(do func(words []uint64)) error {
	return Entries(p.maps[VarPresence], true, do)
}

// clearShares clears what sources held in one generation of the flow tables.
func (p *Proxy) clearShares(generation uint32) error {
	list, zeros := make([]uint32, shareCells), make([]uint32, shareCells)
	for family := range uint32(2) {
		for i := range list {
			list[i] = (family*2+generation&1)*shareCells + uint32(i)
		}
		if _, err := p.maps[proxybpf.ProxyXdpMapTgShares].BatchUpdate(list, zeros, nil); err != nil {
			return fmt.Errorf("shares of the flow tables: %w", err)
		}
	}
	return p.clearHeld(generation)
}

// ForgetHeld forgets how many connections each source holds: sources were something else, or nothing was counted. Those that exist count
// again once they have been met after the next swap.
func (p *Proxy) ForgetHeld() error { return errors.Join(p.clearHeld(0), p.clearHeld(1)) }

// clearHeld forgets how many connections each source holds in one generation of the flow tables.
func (p *Proxy) clearHeld(generation uint32) error {
	return clearHalf(p.maps[proxybpf.ProxyXdpMapTgHeld], generation)
}
