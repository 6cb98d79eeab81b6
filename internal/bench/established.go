// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
)

// How often a turn repeats a packet.
const establishedRepeat = 100_000

// measureEstablished measures what an ACK of a live connection to a protected service
// costs in our XDP and TC programs, beside programs that pass everything. The
// programs leave such a packet unchanged, so a repeated test run measures the
// same path each time. Every cell of the socket filter says "live", which is
// what an established flow finds.
func measureEstablished(ctx context.Context, opt Options, _ *trial.Stand, res *Result) error {
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return err
	}
	defer yard.Close()
	fresh := func() ([]*ebpf.Program, func(), error) {
		gate, err := newGate(0)
		if err != nil {
			return nil, nil, err
		}
		if err := makeLive(gate); err != nil {
			gate.Close()
			return nil, nil, err
		}
		xdp, tc := gate.Programs()
		return []*ebpf.Program{yard.TgBenchPass, xdp, yard.TgBenchTc, tc}, func() { gate.Close() }, nil
	}
	ns, err := inTurns(ctx, opt.Rounds, fresh, repeatNs)
	if err != nil {
		return err
	}
	res.EstablishedNsByProgram = map[string]float64{}
	for name, above := range map[string][]float64{"xdp": differences(ns[1], ns[0]), "tc": differences(ns[3], ns[2])} {
		res.EstablishedNsByProgram[name] = spread(above).Median
		res.Spreads["established_ns_above_pass "+name] = spread(above)
	}
	res.EstablishedNsAbovePass = res.EstablishedNsByProgram["xdp"] + res.EstablishedNsByProgram["tc"]
	return nil
}

// hashesPerRun is TG_BENCH_HASHES of bpf/bench.bpf.c.
const hashesPerRun = 200

func measureHash(ctx context.Context, opt Options, _ *trial.Stand, res *Result) error {
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return err
	}
	defer yard.Close()
	ns, err := inTurns(ctx, opt.Rounds, loaded(yard.TgBenchHash), func(hash *ebpf.Program) (float64, error) {
		_, d, err := hash.Benchmark(ackFrame(), establishedRepeat/hashesPerRun, nil)
		return float64(d.Nanoseconds()) / hashesPerRun, err
	})
	if err != nil {
		return err
	}
	res.SipHashNs = spread(ns[0]).Median
	res.Spreads["siphash24_ns"] = spread(ns[0])
	return nil
}

// makeLive makes the connections live whose segments are measured.
func makeLive(gate *plane.Plane) error {
	if err := fillSocketFilter(gate); err != nil {
		return err
	}
	var s plane.Settings
	if err := gate.Map("tg_settings").Lookup(uint32(0), &s); err != nil {
		return err
	}
	for _, kind := range frameKinds {
		hash := filterHash(&s.FilterKeys, ackFrameOf(kind, nil))
		const slots = 1 << 18 // TG_LIVE_SLOTS
		live := struct {
			Hash     uint64
			Seq, Ack uint32
		}{Hash: hash | 1}
		if err := gate.Map("tg_live_sockets").Put(uint32(hash>>40)&(slots-1), live); err != nil {
			return err
		}
	}
	return nil
}

// filterHash is tg_filter_hash of a frame.
func filterHash(keys *[10]uint64, frame []byte) uint64 {
	word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(frame[at:])) }
	if frame[12] == 0x08 {
		return keys[0] + keys[1]*word(26) + keys[2]*word(30) + keys[3]*word(34)
	}
	h := keys[0] + keys[1]*word(22) + keys[2]*word(38) + keys[3]*word(54)
	for i := range 3 {
		h += keys[4+i]*word(26+4*i) + keys[7+i]*word(42+4*i)
	}
	return h
}

// fillSocketFilter makes every cell say that a socket lives there.
func fillSocketFilter(gate *plane.Plane) error {
	return errors.Join(fillArray(gate.Map("tg_sockets"), uint32(1)<<16),
		plane.Entries(gate.Map("tg_socket_bits"), true, func(words []uint64) {
			for i := range words {
				words[i] = ^uint64(0)
			}
		}))
}

func fillArray[V any](m *ebpf.Map, value V) error {
	const batch = 1 << 14
	keys, values := make([]uint32, batch), make([]V, batch)
	for at := uint32(0); at < m.MaxEntries(); at += batch {
		n := min(batch, m.MaxEntries()-at)
		for i := range n {
			keys[i], values[i] = at+i, value
		}
		if _, err := m.BatchUpdate(keys[:n], values[:n], nil); err != nil {
			return fmt.Errorf("socket filter: %w", err)
		}
	}
	return nil
}

// repeatNs is the mean time of the program for one ACK with timestamps.
func repeatNs(prog *ebpf.Program) (float64, error) {
	return repeatFrameNs(prog, ackFrame())
}

// repeatFrameNs is the mean time of the program for one frame.
func repeatFrameNs(prog *ebpf.Program, frame []byte) (float64, error) {
	_, d, err := prog.Benchmark(frame, establishedRepeat, nil)
	return float64(d.Nanoseconds()), err
}

// ackFrame is an IPv4 ACK without data to port 80, with timestamps.
func ackFrame() []byte {
	f := make([]byte, 14+20+32)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0})
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], 52)
	copy(ip[12:], []byte{198, 18, 16, 1, 198, 18, 0, 80})
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp[0:], 40000)
	binary.BigEndian.PutUint16(tcp[2:], 80)
	binary.BigEndian.PutUint32(tcp[4:], 1000)
	binary.BigEndian.PutUint32(tcp[8:], 2000)
	tcp[12], tcp[13] = 8<<4, 0x10
	copy(tcp[20:], []byte{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2})
	return f
}
