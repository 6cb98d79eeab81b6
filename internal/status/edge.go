// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"os"
	"time"

	"tidegate/internal/plane"
)

// Edge is what `status` shows of an edge's filter.
type Edge struct {
	// Share of unknown flows that the filter takes for known: computed from how
	// full it is, and measured with random flows through the packet path's code.
	FPComputed float64 `json:"fp_rate_computed"`
	FPMeasured float64 `json:"fp_rate_measured"`
	Probes     uint32  `json:"fp_probes"`

	Alarm       bool         `json:"filter_alarm"` // saturated: above filter_alarm
	Positions   uint64       `json:"filter_positions"`
	Generations []Generation `json:"generations"`
	Turned      time.Time    `json:"turned"`   // when the active one became active
	Learning    bool         `json:"learning"` // the filter is younger than its window
	At          time.Time    `json:"at"`       // of this report; it is made once a second

	ClosedPorts int `json:"closed_ports"` // closed ports that were learned
}

// Generation is one generation of the filter.
type Generation struct {
	Active bool    `json:"active"`
	Fill   float64 `json:"fill"`  // of its positions
	Flows  uint32  `json:"flows"` // that give such a fill
}

func readEdge(dir string) (*Edge, error) {
	s, r, err := plane.ReadEdge(dir)
	if err != nil {
		return nil, fmt.Errorf("the edge's filter: %w", err)
	}
	out := &Edge{FPComputed: float64(r.FpComputedPpb) / 1e9, FPMeasured: float64(r.FpMeasuredPpb) / 1e9,
		Probes: r.Probes, Alarm: r.Alarm != 0, Positions: plane.BloomPartitions << s.BloomBits,
		Turned: time.Unix(0, int64(r.RotatedUnixNs)), At: time.Unix(0, int64(r.AtUnixNs)),
		Learning: uint64(plane.MonotonicNs()) < s.LearningUntilNs}
	if out.ClosedPorts, err = plane.ReadClosed(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // of an older version
		return nil, fmt.Errorf("the edge's closed ports: %w", err)
	}
	for g := range plane.BloomGenerations {
		out.Generations = append(out.Generations, Generation{Active: g == int(s.Generation),
			Fill: float64(r.FillPpm[g]) / 1e6, Flows: r.Flows[g]})
	}
	return out, nil
}
