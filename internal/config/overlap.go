// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// claim is one port range of one service under one prefix.
type claim struct {
	ports PortRange
	index int
}

// checkServices finds mistakes that involve more than one service.
// It runs only when every service is valid by itself.
func (r *reader) checkServices(services []Service) {
	byName := make(map[string]int, len(services))
	claims := map[netip.Prefix][]claim{}
	for i, s := range services {
		if first, there := byName[s.Name]; there {
			r.fail(s.Line, fmt.Sprintf("services[%d].name", i), "%s is the name of the service of line %d too; choose another",
				s.Name, services[first].Line)
		} else {
			byName[s.Name] = i
		}
		for _, p := range s.Prefixes {
			for _, pr := range s.Ports {
				claims[p] = append(claims[p], claim{pr, i})
			}
		}
	}
	r.checkLengths(services)
	r.checkEntries(services)
	r.checkOverlaps(services, claims)
}

// checkOverlaps refuses a port that two services claim under the same prefix.
// Nested prefixes are no overlap: the longest wins.
func (r *reader) checkOverlaps(services []Service, claims map[netip.Prefix][]claim) {
	seen := map[[2]int]bool{} // a pair of services is reported once
	for _, prefix := range slices.SortedFunc(maps.Keys(claims), netip.Prefix.Compare) {
		list := claims[prefix]
		slices.SortFunc(list, func(a, b claim) int {
			return cmp.Or(cmp.Compare(a.ports.First, b.ports.First), cmp.Compare(a.index, b.index))
		})
		widest := list[0] // the claim so far that reaches highest
		for _, c := range list[1:] {
			if c.ports.First <= widest.ports.Last {
				first, second := min(widest.index, c.index), max(widest.index, c.index)
				if !seen[[2]int{first, second}] {
					seen[[2]int{first, second}] = true
					r.fail(services[second].Line, fmt.Sprintf("services[%d].ports", second),
						"%s port %d is claimed by %s of line %d too; take it out of one of them or use a longer prefix",
						prefix, c.ports.First, services[first].Name, services[first].Line)
				}
			}
			if c.ports.Last > widest.ports.Last {
				widest = c
			}
		}
	}
}

// checkEntries bounds the table in which every port of every prefix has an entry.
func (r *reader) checkEntries(services []Service) {
	total := 0
	for i, s := range services {
		everywhere := len(s.Prefixes) == 2 && s.Prefixes[0].Bits() == 0 && s.Prefixes[1].Bits() == 0
		if everywhere { // both families: that takes no entry
			continue
		}
		ports := 0
		for _, p := range s.Ports {
			ports += int(p.Last) - int(p.First) + 1
		}
		if total += ports * len(s.Prefixes); total > MaxPrefixEntries {
			r.fail(s.Line, fmt.Sprintf("services[%d].ports", i), "prefixes times ports of all services up to here are %d and may be %d; name fewer ports, or leave prefixes out to protect every address",
				total, MaxPrefixEntries)
			return
		}
	}
}

// checkLengths bounds the number of lookups that one packet can cost.
func (r *reader) checkLengths(services []Service) {
	lengths := map[int][]string{} // address bits -> "/24" in order of appearance
	for i, s := range services {
		for _, p := range s.Prefixes {
			bits, text := p.Addr().BitLen(), fmt.Sprintf("/%d", p.Bits())
			if slices.Contains(lengths[bits], text) {
				continue
			}
			if len(lengths[bits]) == MaxPrefixLengths {
				family := "IPv4"
				if bits == 128 {
					family = "IPv6"
				}
				r.fail(s.Line, fmt.Sprintf("services[%d].prefixes", i), "%s would be the %dth prefix length of %s; use one of %s",
					p, MaxPrefixLengths+1, family, strings.Join(lengths[bits], " "))
				return
			}
			lengths[bits] = append(lengths[bits], text)
		}
	}
}
