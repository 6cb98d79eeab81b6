// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"fmt"
	"strings"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// Result is the one JSON object of `tidegate-lab split --json`: that of `tidegate-lab
// flood`, in which "syn" is any packet of the attack, and what split adds.
type Result struct {
	trial.Result

	Edges     int     `json:"edges"`
	Plane     string  `json:"plane"`
	Mode      string  `json:"mode"`
	Takeover  string  `json:"takeover"`
	Layout    string  `json:"cookie_layout"`
	Attack    string  `json:"attack"`
	Return    string  `json:"return"` // edge or direct
	RouteFlap bool    `json:"route_flap"`
	DropSetup float64 `json:"drop_setup"`
	SkewS     float64 `json:"skew_s"`
	// The server's. BBR paces the first window of a connection without a round-trip
	// time sample, such as one from a cookie, as for 1 ms, which latency_ratio then shows.
	Congestion string `json:"congestion_control"`

	// Attack packets that reached the server's ports, and the SYNs among them.
	ServerAttackPackets uint64 `json:"server_attack_packets"`
	ServerAttackSYNs    uint64 `json:"server_attack_syns"`

	// Share of unknown flows that an edge's filter takes for known: computed from its
	// fill; and measured, from the attack's non-SYN packets if there were
	// any, otherwise by probing the filter. With several edges, their mean.
	FPComputed float64 `json:"fp_rate_computed"`
	FPMeasured float64 `json:"fp_rate_measured"`

	// Median time of a request under attack, relative to that without attack and without
	// tidegate in the same place.
	LatencyRatio    float64        `json:"latency_ratio"`
	LatencyBaseline load.Quantiles `json:"latency_baseline_ms"`
	// The same relative to an empty XDP program on the edges' ports: this is tidegate's share,
	// without that of veth, where any XDP program disables segmentation offload.
	LatencyRatioXDP    float64        `json:"latency_ratio_xdp"`
	LatencyBaselineXDP load.Quantiles `json:"latency_baseline_xdp_ms"`

	EdgeCounters   map[string]uint64 `json:"edge_counters"` // sum over all edges
	ServerCounters map[string]uint64 `json:"server_counters"`
	SetupLost      uint64            `json:"setup_lost"` // bare ACKs of clients, dropped on purpose
}

func (x *run) result(ctx context.Context, before, empty, m *measured, own trial.Cost) (*Result, error) {
	o := x.opts
	r := &Result{Edges: o.Edges, Plane: o.Plane, Mode: o.Mode, Takeover: o.Takeover, Layout: o.layout(), Attack: o.Attack, Return: "edge",
		RouteFlap: o.RouteFlap, DropSetup: o.DropSetup, SkewS: o.Skew.Seconds(), Congestion: o.Congestion,
		ServerAttackPackets: m.seen.Attack, ServerAttackSYNs: m.seen.AttackSYN, SetupLost: m.seen.Lost,
		LatencyBaseline: before.Load.Latency, LatencyBaselineXDP: empty.Load.Latency, EdgeCounters: map[string]uint64{}, ServerCounters: map[string]uint64{}}
	if o.Direct {
		r.Return = "direct"
	}
	var probed float64
	for _, n := range x.nodes {
		st, err := n.status(ctx)
		if err != nil {
			return nil, err
		}
		to := r.ServerCounters
		if n.role == "edge" {
			to = r.EdgeCounters
			r.FPComputed += st.Edge.FPComputed / float64(o.Edges)
			probed += st.Edge.FPMeasured / float64(o.Edges)
		}
		for name, v := range st.Services[0].Counters {
			if v != 0 {
				to[name] += v
			}
		}
	}
	r.Result = *x.env.Result(&m.Measured, r.EdgeCounters["cookie_sent"], own)
	r.FPMeasured = probed
	if o.Attack != AttackSYN {
		// What reached the server is what the filter took for known, plus what was
		// forwarded as unknown; the clients' share of that is negligible in a flood.
		left := r.EdgeCounters["edge_unknown"] + r.EdgeCounters["edge_learning"]
		passed := m.seen.Attack - min(m.seen.Attack, left)
		if met := passed + left + sumDropped(r.EdgeCounters); met > 0 {
			r.FPMeasured = float64(passed) / float64(met)
		}
	}
	if p50 := before.Load.Latency.P50; p50 > 0 {
		r.LatencyRatio = load.Round3(m.Load.Latency.P50 / p50)
	}
	if p50 := empty.Load.Latency.P50; p50 > 0 {
		r.LatencyRatioXDP = load.Round3(m.Load.Latency.P50 / p50)
	}
	return r, nil
}

// sumDropped is what an edge dropped of the attack's non-SYN packets.
func sumDropped(c map[string]uint64) uint64 {
	return c["drop_ack"] + c["drop_rst"] + c["drop_fin"] + c["drop_synack"]
}

// Summary returns the result as text.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "split      %d edges, %s, server %s; answers by the %s path; attack %s\n", r.Edges, r.Mode, r.Takeover, r.Return, r.Attack)
	b.WriteString(r.Result.Summary())
	fmt.Fprintf(&b, "at server  %d attack packets (%d SYNs) of %d sent\n", r.ServerAttackPackets, r.ServerAttackSYNs, r.SYNSent)
	fmt.Fprintf(&b, "filter     false positives %.4f %% computed, %.4f %% measured\n", 100*r.FPComputed, 100*r.FPMeasured)
	fmt.Fprintf(&b, "latency    %s at the server: %.3f times that without attack and without tidegate (p50 %g ms, p90 %g);\n           %.3f times that with an empty XDP program in its place (p50 %g ms)\n",
		r.Congestion, r.LatencyRatio, r.LatencyBaseline.P50, r.LatencyBaseline.P90, r.LatencyRatioXDP, r.LatencyBaselineXDP.P50)
	return b.String()
}
