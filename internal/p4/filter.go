// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// FilterBits is the binary logarithm of the positions in a partition of the filter.
const FilterBits = bloomBits

const (
	bloomPartitions = 3
	filterEvery     = 10 * time.Second // how often the filter is read: it takes the switch some milliseconds
	filterProbes    = 20000
	filterAlarm     = 0.2 // as the default of edges in XDP
)

// FilterFigures are the fill of an edge's filter. Computed and measured are the share of
// unknown flows that it takes for known: computed from the fill of each partition, and measured with this many
// random flows in a copy of the registers.
type FilterFigures struct {
	Computed float64                   `json:"fp_rate_computed"`
	Measured float64                   `json:"fp_rate_measured"`
	Probes   uint32                    `json:"fp_probes"`
	Alarm    bool                      `json:"filter_alarm"`
	Active   uint8                     `json:"active"`
	Fill     [bloomGenerations]float64 `json:"fill"`
	Flows    [bloomGenerations]uint32  `json:"flows"`
	Turned   time.Time                 `json:"turned"`
	Learning bool                      `json:"learning"`
	At       time.Time                 `json:"at"`
}

// Filter reads an edge's filter from the switch.
func (c *Controller) Filter() (*FilterFigures, error) {
	var parts [bloomPartitions][]int64
	for i, name := range bloomParts {
		var err error
		if parts[i], err = c.sw.Registers(c.names.in(name)); err != nil {
			return nil, err
		}
	}
	f := &FilterFigures{Probes: filterProbes, Active: c.generation, Turned: c.rotated, Learning: c.now().Before(c.learnUntil), At: c.now()}
	pass := 1.0
	for g := range bloomGenerations {
		all := 1.0
		for _, part := range parts {
			set := 0
			for _, word := range part[g*bloomWords : (g+1)*bloomWords] {
				set += bits.OnesCount32(uint32(word))
			}
			fill := float64(set) / (1 << bloomBits)
			f.Fill[g], all = f.Fill[g]+fill/bloomPartitions, all*fill
		}
		f.Flows[g] = uint32(math.Round(-(1 << bloomBits) * math.Log1p(-min(f.Fill[g], 1-1e-7))))
		pass *= 1 - all
	}
	f.Computed = 1 - pass
	f.Measured = measureFilter(&parts)
	f.Alarm = f.Computed > c.cfg.FilterAlarm
	return f, nil
}

// ReadFilter reads that of a switch that another process drives.
func ReadFilter(ctx context.Context, thrift string) (*FilterFigures, error) {
	sw, err := simpleswitch.Dial(ctx, thrift)
	if err != nil {
		return nil, err
	}
	defer sw.Close()
	c := &Controller{cfg: &Config{Program: ProgramEdge, FilterAlarm: filterAlarm}, names: namesOf(ProgramEdge), sw: sw, now: time.Now}
	if err := c.readGate(); err != nil {
		return nil, err
	}
	return c.Filter()
}

// measureFilter looks up random flows as p4/v1model/bloom.p4 does.
func measureFilter(parts *[bloomPartitions][]int64) float64 {
	known := 0
	for range filterProbes {
		lo, hi := rand.Uint32(), rand.Uint32()
		for g := range bloomGenerations {
			all := true
			for i := range parts {
				at := (lo + uint32(i)*hi) & (1<<bloomBits - 1)
				all = all && uint32(parts[i][g*bloomWords+int(at>>5)])>>(at&31)&1 == 1
			}
			if all {
				known++
				break
			}
		}
	}
	return float64(known) / filterProbes
}
