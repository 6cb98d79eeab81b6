// SPDX-License-Identifier: Apache-2.0

package instance

import "tidegate/internal/config"

// Numbers gives services their numbers; a service keeps its number, and so its
// counters, over reloads.
type Numbers struct{ ids map[string]uint32 }

// NewNumbers starts without any numbers.
func NewNumbers() *Numbers { return &Numbers{map[string]uint32{}} }

// ID is the number of a service; 0 if it has none.
func (n *Numbers) ID(name string) uint32 { return n.ids[name] }

// Assign numbers the services of a configuration and returns the numbers of
// those that are no longer in it.
func (n *Numbers) Assign(services []config.Service) (removed []uint32) {
	next := map[string]uint32{}
	used := map[uint32]bool{}
	for _, svc := range services {
		if id, ok := n.ids[svc.Name]; ok {
			next[svc.Name] = id
			used[id] = true
		}
	}
	for name, id := range n.ids {
		if _, ok := next[name]; !ok {
			removed = append(removed, id)
		}
	}
	free := uint32(1)
	for _, svc := range services {
		if _, ok := next[svc.Name]; ok {
			continue
		}
		for used[free] {
			free++
		}
		next[svc.Name] = free
		used[free] = true
	}
	n.ids = next
	return removed
}
