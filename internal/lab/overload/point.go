// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"tidegate/internal/lab/load"
)

// Point is what was measured at one rate. Packet rates are per second.
type Point struct {
	Asked     string  `json:"rate_asked"`
	Offered   float64 `json:"offered_pps"`   // SYNs that the generator sent
	Processed float64 `json:"processed_pps"` // frames that the victim took out of its queue, including the clients'
	Answered  float64 `json:"answered_pps"`  // SYN-ACKs to the flood's sources, counted at their end
	Lost      float64 `json:"lost_pps"`      // frames dropped at the full queue, before any defence, including the clients'

	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Success  float64        `json:"success"` // 0 to 1
	Errors   map[string]int `json:"errors,omitempty"`
	// Failed requests count as the whole timeout in both.
	Connect load.Quantiles `json:"connect_ms"`
	Latency load.Quantiles `json:"latency_ms"`

	LagMax float64 `json:"client_start_lag_max_ms"` // largest delay of the clients themselves

	VictimCPU float64 `json:"victim_cpu"` // share of its processor that receiving took
	// VictimWait is the share of time in which the victim was runnable while another thread had its processor.
	VictimWait float64 `json:"victim_wait"`
	// Moved: the kernel moved the victim's thread to another processor meanwhile.
	Moved     bool    `json:"victim_moved,omitempty"`
	ServerCPU float64 `json:"server_cpu"` // the web server's CPU share; behind a box, including its port's receiving
	FrameNs   float64 `json:"ns_per_frame"`
	// CoreToCore is how long a cache line takes from the generator's processor to the victim's, before and after the measurement
	// (rig.CoreToCore): a frame brings several.
	CoreToCore [2]float64 `json:"core_to_core_ns"`
	PerRequest float64    `json:"frames_per_request"` // frames that arrived; measured without a flood
}

// Disturbed reports whether a victim that was not busy itself was kept off its processor for long enough
// to explain half of the failures: other work on this machine.
func (p *Point) Disturbed() bool {
	return p.Moved || p.VictimCPU < busy && p.VictimWait > 0 && p.VictimWait >= (1-p.Success)/2
}

// busy is the share of its processor from which on a victim counts as busy: its thread's reservation is nine tenths.
const busy = 0.85

// VictimIdle reports whether frames were lost that the victim had time for.
func (p *Point) VictimIdle() bool { return p.VictimCPU < busy && p.Lost > 0.01*p.Offered }

// fill computes the rates from two readings.
func (p *Point) fill(before, after gauges, stats load.FloodStats) {
	s := stats.Wall.Seconds()
	if s <= 0 {
		return
	}
	arrived := float64(after.arrived - before.arrived)
	p.Offered, p.Processed = load.Round3(float64(stats.Frames)/s), load.Round3(arrived/s)
	p.Answered = load.Round3(float64(after.answered-before.answered) / s)
	p.Lost = load.Round3(max(0, float64(stats.Frames+stats.ClientFrames)-arrived) / s)
	if p.Lost < 0.0005*p.Offered { // frames in flight when the counters were read
		p.Lost = 0
	}
	p.VictimCPU = load.Round3((after.victim - before.victim).Seconds() / s)
	p.VictimWait = load.Round3((after.waited - before.waited).Seconds() / s)
	p.ServerCPU = load.Round3((after.server - before.server).Seconds() / s)
	if stats.Frames == 0 && p.Requests > 0 {
		p.PerRequest = load.Round3(arrived / float64(p.Requests))
	}
	if arrived > 0 {
		p.FrameNs = load.Round3(float64((after.victim - before.victim).Nanoseconds()) / arrived)
	}
}
