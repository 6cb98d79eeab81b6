// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// leastServiceRoom is how many services every start has room for.
const leastServiceRoom = 512

// serviceRoom is how many services' numbers a start has room for, by how many it needs at once: what is counted for a
// service takes 1.2 KB on every possible CPU, which for MaxServices is 12 MB on each.
func serviceRoom(numbers int) uint32 {
	return uint32(min(max(powerOfTwo(4*numbers), leastServiceRoom), MaxServices))
}

// sizesFor are the entries of the maps that have a row for each service on every CPU, and one for number 0.
func sizesFor(numbers int) map[string]uint32 {
	rows := serviceRoom(numbers) + 1
	return map[string]uint32{hostbpf.HostXdpMapTgCounters: rows, hostbpf.HostXdpMapTgSigned: rows}
}

// checkRoom refuses targets for whose numbers this start has no rows.
func checkRoom(counters *ebpf.Map, targets []Target) error {
	room := counters.MaxEntries() - 1
	for _, t := range targets {
		if t.ID > room && room < MaxServices {
			return fmt.Errorf("too many services: this start has made room for %d; start `tidegate run` again, "+
				"which makes room for four times as many as are configured then (after SIGTERM that interrupts nothing)", room)
		}
		if t.ID > room {
			return fmt.Errorf("too many services: there are only %d numbers, of which a service takes one, or with `takeover: auto` three", room)
		}
	}
	return nil
}
