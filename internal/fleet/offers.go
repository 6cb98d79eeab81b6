// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"

	"tidegate/internal/config"
)

// ServiceOffer is what the servers of a service offer.
type ServiceOffer struct {
	Service string                  `json:"service"`
	Nodes   map[string]config.Offer `json:"nodes"` // that report in time
	Least   config.Offer            `json:"least"` // what all of them can keep
	Desired *config.Offer           `json:"desired,omitempty"`
}

// InForce says whether edges offer just that.
func (s *ServiceOffer) InForce() bool { return s.Desired != nil && *s.Desired == s.Least }

// OffersOf adds up what nodes report, by name of service.
func OffersOf(now *Revision, nodes []Node) (list []ServiceOffer) {
	by := map[string]*ServiceOffer{}
	for _, n := range nodes {
		if n.Late {
			continue
		}
		for name, offer := range n.Offers {
			s := by[name]
			if s == nil {
				s = &ServiceOffer{Service: name, Nodes: map[string]config.Offer{}, Least: offer}
				by[name] = s
			}
			s.Nodes[n.Report.Node], s.Least = offer, s.Least.Least(offer)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if offer, there := now.Desired.Offers[name]; there {
			by[name].Desired = &offer
		}
		list = append(list, *by[name])
	}
	return list
}

// offersChanged lists what changes, a line each.
func offersChanged(from, to config.Offers) (lines []string) {
	for name, before := range from {
		if _, there := to[name]; !there {
			lines = append(lines, fmt.Sprintf("offers of %s: %v, now as configured", name, before))
		}
	}
	for name, after := range to {
		if before, there := from[name]; !there {
			lines = append(lines, fmt.Sprintf("offers of %s: as configured, now %v", name, after))
		} else if before != after {
			lines = append(lines, fmt.Sprintf("offers of %s: %v, now %v", name, before, after))
		}
	}
	return lines
}
