// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"encoding/binary"
	"math"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// filter is the filter's state that is kept from second to second.
type filter struct {
	turned time.Time     // when the active generation became active
	probes [16]probeTick // the last seconds' probes, a ring
	at     int
	alarm  bool
}

type probeTick struct{ asked, known uint32 }

// probesEach is how many random flows are looked up in the filter each second: a
// millisecond of one processor.
const probesEach = 16384

// bloomKey derives from a key the numbers that the filter's hash multiplies with (core/bloom.h): number i of the two
// hashes' is SipHash-2-4 of i, 8 bytes little-endian.
func bloomKey(raw [keys.EpochKeyLen]byte) (k plane.BloomKey) {
	var at [8]byte
	for i := range k {
		for j := range k[i] {
			binary.LittleEndian.PutUint64(at[:], uint64(i*len(k[i])+j))
			k[i][j] = sipHash(raw, at[:])
		}
	}
	return k
}

// turnEvery is how long a generation is active: a third of the window, so that a flow
// is known for the window at least.
func (b *edge) turnEvery() time.Duration {
	return b.Cfg.Edge.FilterWindow / (plane.BloomGenerations - 1)
}

// turn empties the oldest generation and makes it the active one.
func (b *edge) turn() error {
	if err := b.plane.Rotate(); err != nil {
		return err
	}
	b.own = b.plane.EdgeSettings()
	b.filter.turned = time.Now()
	return nil
}

// watchFilter probes and reports.
func (b *edge) watchFilter(now time.Time) error {
	f := &b.filter
	known, err := b.plane.Probe(probesEach)
	if err != nil {
		return err
	}
	f.probes[f.at%len(f.probes)] = probeTick{probesEach, known}
	f.at++
	return b.report(now)
}

func (b *edge) report(now time.Time) error {
	f, fill := &b.filter, b.plane.Fill()
	r := plane.EdgeReport{AtUnixNs: uint64(now.UnixNano()), RotatedUnixNs: uint64(f.turned.UnixNano()),
		FpComputedPpb: uint32(math.Round(fill.FPRate() * 1e9))}
	var asked, known uint32
	for _, p := range f.probes {
		asked += p.asked
		known += p.known
	}
	r.Probes = asked
	if asked > 0 {
		r.FpMeasuredPpb = uint32(math.Round(float64(known) / float64(asked) * 1e9))
	}
	for g := range plane.BloomGenerations {
		share, flows := fill.Generation(g)
		r.FillPpm[g] = uint32(math.Round(share * 1e6))
		r.Flows[g] = uint32(min(flows, math.MaxUint32))
	}
	saturated := fill.FPRate() > b.Cfg.Edge.FilterAlarm
	if saturated {
		r.Alarm = 1
	}
	if saturated != f.alarm {
		f.alarm = saturated
		if saturated {
			b.Log.Warn("the filter is saturated: this share of unknown ACKs reaches the servers' final ACK check; no connection is harmed; raise filter_bits or shorten filter_window",
				"fp_rate", fill.FPRate(), "alarm_above", b.Cfg.Edge.FilterAlarm)
		} else {
			b.Log.Info("the filter is no longer saturated", "fp_rate", fill.FPRate())
		}
	}
	return b.plane.SetReport(r)
}

// unknownCost is what one unknown packet costs of a CPU's share of the allowance, which is
// divided among the CPUs without shared state.
func unknownCost(rate config.Rate, cpus int) uint64 {
	switch {
	case rate.All:
		return plane.AllowAll
	case rate.PerSecond == 0:
		return plane.AllowNone
	}
	return max(1, uint64(math.Round(1e9*float64(cpus)/float64(rate.PerSecond))))
}
