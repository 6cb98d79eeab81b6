// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"sort"
	"strings"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Result is the one JSON object of `tidegate-lab flood --json`.
type Result struct {
	Defence string `json:"defence"`
	Family  string `json:"family"`
	Server  string `json:"server"`
	Plane   string `json:"plane,omitempty"` // of a proxy

	RateAsked string  `json:"rate_asked"`
	SYNSent   uint64  `json:"syn_sent"` // as counted at the server's port
	SYNPPS    float64 `json:"syn_pps"`
	SYNLost   uint64  `json:"syn_lost"` // generated, but dropped at a full ring before the server
	Answers   uint64  `json:"answers"`  // sent by the server to spoofed sources

	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Success  float64        `json:"success"` // 0 to 1
	Retried  int            `json:"retried"` // connections that were reset before an answer and retried
	Errors   map[string]int `json:"errors"`
	// Failed requests count as the whole timeout in both.
	Connect load.Quantiles `json:"connect_ms"`
	Latency load.Quantiles `json:"latency_ms"`

	ServerSynRecv int    `json:"server_syn_recv"` // peak of half-open connections
	CookiesSent   uint64 `json:"cookies_sent"`

	// CPUPerSYN is the CPU time per SYN of the sending thread, in whose softirq the
	// server works, and of its CPU's ksoftirqd, minus
	// GeneratorPerSYN: the same measured at the same rate against an XDP drop at
	// the far end. Delivering the answers to the attacker's sink counts as the server's.
	// Zero means: indistinguishable from the generator's own cost.
	CPUPerSYN       float64 `json:"cpu_ns_per_syn"`
	GeneratorPerSYN float64 `json:"generator_ns_per_syn"`
	// InstructionsPerSYN are those of the flood's processor, and GeneratorInstructions the part that making and delivering one takes; zero: this machine
	// cannot count them.
	InstructionsPerSYN    float64 `json:"instructions_per_syn,omitempty"`
	GeneratorInstructions float64 `json:"generator_instructions_per_syn,omitempty"`

	*ProxyState // of a defence in a box; nil otherwise

	Pinning     rig.Pinning `json:"pinning"`
	StartLagMax float64     `json:"client_start_lag_max_ms"`
	LoadSeconds float64     `json:"load_s"`

	connectTimes []float64 // of the established connections, in ms; Options.KeepConnect
}

// ProxyState is the state in the box between clients and server.
type ProxyState struct {
	// Flows is the peak number of entries: connections (cookie, cache, SYNPROXY)
	// or whitelisted sources (auth-*), sampled four times a second.
	Flows int `json:"flows"`
	// BytesPerFlow is the kernel memory of one entry, including its share of
	// the buckets of a full table. Zero: there was none, or the kernel does not report it; on
	// plane dpdk all memory is allocated at the start.
	BytesPerFlow float64 `json:"bytes_per_flow"`
}

// Result puts together what was measured, the cookies that the defence has counted, and what the generator itself costs.
func (env *Env) Result(m *Measured, cookies uint64, own Cost) *Result {
	o := env.opts
	r := &Result{
		Defence: o.Defence, Family: "ipv4", Server: env.Server, RateAsked: o.Rate.String(),
		SYNSent: m.Arrived, Answers: m.Answered,
		Requests: m.Load.Requests, OK: m.Load.OK, Retried: m.Load.Retried, Errors: m.Load.Errors,
		Connect: m.Load.Connect, Latency: m.Load.Latency,
		ServerSynRecv: m.SynRecv, CookiesSent: cookies,
		GeneratorPerSYN: load.Round3(own.Ns), GeneratorInstructions: load.Round3(own.Instructions), Pinning: env.Pin,
		StartLagMax: m.Load.LagMax, LoadSeconds: m.Load.Elapsed, ProxyState: m.state, connectTimes: m.Load.Times,
	}
	if strings.HasPrefix(o.Defence, defences.ProxyPrefix) {
		r.Plane = o.Plane
	}
	if o.IPv6 {
		r.Family = "ipv6"
	}
	if r.Requests > 0 {
		r.Success = float64(r.OK) / float64(r.Requests)
	}
	if m.Flood.Frames > m.Arrived {
		r.SYNLost = m.Flood.Frames - m.Arrived
	}
	if s := m.Flood.Wall.Seconds(); s > 0 {
		r.SYNPPS = load.Round3(float64(m.Arrived) / s)
	}
	if m.Arrived > 0 {
		r.CPUPerSYN = max(0, load.Round3(float64(m.Flood.Busy.Nanoseconds())/float64(m.Arrived)-own.Ns))
		r.InstructionsPerSYN = load.Round3(float64(m.Instructions) / float64(m.Arrived))
	}
	return r
}

// Summary returns the result as text.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "defence    %s (%s, %s)\n", r.Defence, r.Family, r.Server)
	fmt.Fprintf(&b, "flood      %d SYNs, %.0f a second (requested: %s); %d answers, %d cookies\n",
		r.SYNSent, r.SYNPPS, r.RateAsked, r.Answers, r.CookiesSent)
	fmt.Fprintf(&b, "requests   %d of %d served: %.3f %%%s\n", r.OK, r.Requests, 100*r.Success, errorList(r.Errors))
	fmt.Fprintf(&b, "connect    p50 %g ms, p90 %g, p99 %g, p99.9 %g\n",
		r.Connect.P50, r.Connect.P90, r.Connect.P99, r.Connect.P999)
	fmt.Fprintf(&b, "latency    p50 %g ms, p90 %g, p99 %g, p99.9 %g\n",
		r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999)
	fmt.Fprintf(&b, "server     %d half-open at most; %.0f ns CPU per SYN (generator's %.0f ns taken off)\n",
		r.ServerSynRecv, r.CPUPerSYN, r.GeneratorPerSYN)
	if r.ProxyState != nil {
		fmt.Fprintf(&b, "box        %d entries at most, %.0f bytes each\n", r.Flows, r.BytesPerFlow)
	}
	fmt.Fprintf(&b, "pinning    flood CPU %d, server %d, clients %d\n", r.Pinning.Flood, r.Pinning.Server, r.Pinning.Client)
	return b.String()
}

func errorList(errs map[string]int) string {
	if len(errs) == 0 {
		return ""
	}
	var parts []string
	for kind, n := range errs {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}
