// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
)

// MaxOffenders bounds the sources that a node reports.
const MaxOffenders = 50

// Offender is a source, proven by its handshakes, that begins more connections with a node than source_limits allows.
type Offender struct {
	Prefix    netip.Prefix `json:"prefix"`
	PerSecond float64      `json:"above_limit_per_second"`
}

// valid reports whether a node can have measured that.
func (o *Offender) valid() bool {
	return o.Prefix.IsValid() && o.Prefix == o.Prefix.Masked() && o.PerSecond > 0 && o.PerSecond <= 1e9 && !math.IsNaN(o.PerSecond)
}

// FleetOffender is an offender of the whole fleet.
type FleetOffender struct {
	Offender
	Nodes []string `json:"nodes"` // whose word it is, the one that has most of it first
}

// FleetAttack is a service that is attacked, at the nodes that answer its SYNs.
type FleetAttack struct {
	Service string            `json:"service"`
	Nodes   map[string]string `json:"nodes"` // and by whose word: names of nodes, or "here"
}

// Top is what the nodes suffer.
type Top struct {
	Offenders []FleetOffender `json:"offenders"`        // those that are most above their limits, added over all nodes, first
	Attacks   []FleetAttack   `json:"attacks"`          // by name
	Limit     int             `json:"limit_per_second"` // of a source at all nodes together; 0: none
	Above     []FleetSource   `json:"above_fleet_limit"`
	Nodes     int             `json:"nodes"` // that have reported in time
}

// TopOf merges the reports. What nodes report of frequent items adds up: of a source that is above its limit at several nodes, the sum counts. What a node says of
// itself that cannot be true is left out, as are the reports of nodes that are late.
func TopOf(nodes []Node, limits FleetLimits) Top {
	top := Top{Offenders: []FleetOffender{}, Attacks: []FleetAttack{}, Limit: limits.NewPerSecond, Above: []FleetSource{}}
	said := map[string]*SourceSummary{}
	at := map[netip.Prefix]map[string]float64{}
	attacks := map[string]map[string]string{}
	for i := range nodes {
		n := &nodes[i]
		if n.Late {
			continue
		}
		top.Nodes++
		if n.Sources != nil && n.Sources.valid(MaxSources) {
			said[n.Report.Node] = n.Sources
		}
		for _, o := range n.Offenders[:min(len(n.Offenders), MaxOffenders)] {
			if !o.valid() {
				continue
			}
			if at[o.Prefix] == nil {
				at[o.Prefix] = map[string]float64{}
			}
			at[o.Prefix][n.Report.Node] = max(at[o.Prefix][n.Report.Node], o.PerSecond) // one that names a source twice adds nothing
		}
		for service, whose := range n.Attacks {
			if attacks[service] == nil {
				attacks[service] = map[string]string{}
			}
			attacks[service][n.Report.Node] = whose
		}
	}
	if top.Limit > 0 {
		top.Above = append(top.Above, sourcesOf(said, float64(top.Limit))...)
	}
	for prefix, rates := range at {
		o := FleetOffender{Offender: Offender{Prefix: prefix}, Nodes: slices.SortedFunc(maps.Keys(rates), func(a, b string) int {
			return cmp.Or(cmp.Compare(rates[b], rates[a]), cmp.Compare(a, b))
		})}
		for _, node := range o.Nodes { // in that order: the sum is the same each time
			o.PerSecond += rates[node]
		}
		top.Offenders = append(top.Offenders, o)
	}
	slices.SortFunc(top.Offenders, func(a, b FleetOffender) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), a.Prefix.Compare(b.Prefix))
	})
	for _, service := range slices.Sorted(maps.Keys(attacks)) {
		top.Attacks = append(top.Attacks, FleetAttack{service, attacks[service]})
	}
	return top
}
