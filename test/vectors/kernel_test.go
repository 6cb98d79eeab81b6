// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

const (
	ethernetHeaderLen = 14
	ipv6HeaderLen     = 40
)

// kernelGate is the XDP and the TC program, run by BPF_PROG_TEST_RUN in a
// network namespace of its own. A frame that XDP passes goes through TC.
type kernelGate struct {
	p       *plane.Plane
	xdp, tc *ebpf.Program
	ns      *namespace
	used    map[uint32]bool // services whose counters this vector may touch
	short   int             // frames too short for BPF_PROG_TEST_RUN
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: loads BPF programs and makes a network namespace")
	}
}

// newKernelGate must be called, and its gate used, on one locked thread.
func newKernelGate(t testing.TB) *kernelGate {
	t.Helper()
	g := &kernelGate{ns: enterNamespace(t), used: map[uint32]bool{}}
	var err error
	if g.p, err = plane.Load(plane.Options{Instance: "vectors", KeySlots: vectors.KeyRingSlots, Services: plane.MaxServices}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.p.Close)
	g.xdp, g.tc = g.p.Programs()
	if g.p.KeySlots() != vectors.KeyRingSlots {
		t.Fatalf("%d key slots, the vectors assume %d", g.p.KeySlots(), vectors.KeyRingSlots)
	}
	return g
}

func target(s vectors.Service) (plane.Target, error) {
	mode, ok1 := modes[s.Mode]
	listener, ok2 := listeners[s.Listener]
	if !ok1 || !ok2 {
		return plane.Target{}, fmt.Errorf("service %d: mode %q, listener %q", s.ID, s.Mode, s.Listener)
	}
	prefixes := s.Prefixes
	if len(prefixes) == 0 {
		prefixes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	return plane.Target{ID: s.ID, Prefixes: prefixes, Ports: [][2]uint16{{s.Port, s.Port}},
		Service: plane.Service{MssV4: s.MSSv4, MssV6: s.MSSv6, Window: s.Window, Wscale: s.WScale,
			Sack: uint8(bit(s.SACK)), Timestamps: uint8(bit(s.Timestamps)), Ecn: uint8(bit(s.ECN)),
			Mode: uint8(mode), ListenerV4: uint8(listener), ListenerV6: uint8(listener), SignedCostUs: s.SignedCostUs()}}, nil
}

// settingsFor sets "now" to the middle of an epoch. Epochs are as long as
// 64 bits allow, so that a slow machine stays within this one.
func settingsFor(v *vectors.Vector) plane.Settings {
	length := uint64(1e12)
	if longest := math.MaxUint64 / (*v.Epoch + 2); longest < length {
		length = longest
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return plane.Settings{EpochLenNs: length, StaleKeys: uint8(bit(v.StaleKeys == "drop")),
		WallMinusMonoNs: *v.Epoch*length + length/2 - uint64(now.Nano()), FilterKeepTicks: 1}
}

// fullAllowance resets a service's allowance for signed SYNs.
func fullAllowance(m *ebpf.Map, id uint32) error {
	return m.Put(id, make([][2]uint64, ebpf.MustPossibleCPU()))
}

func (g *kernelGate) Prepare(v *vectors.Vector) error {
	var targets []plane.Target
	rows := map[uint32]bool{0: true}
	for _, s := range v.Services {
		t, err := target(s)
		if err != nil {
			return err
		}
		targets = append(targets, t)
		rows[s.ID] = true
	}
	settings := settingsFor(v)
	if err := g.p.SetServices(targets, &settings); err != nil {
		return err
	}
	for slot := range uint32(vectors.KeyRingSlots) {
		if err := g.p.Map("tg_keys").Put(slot, plane.EpochKey{Epoch: math.MaxUint64}); err != nil {
			return err
		}
	}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		if err := g.p.PutKey(n, secret.EpochKey(n)); err != nil {
			return err
		}
	}
	if err := fillSocketFilter(g.p, v.Filter == vectors.FilterMaybe); err != nil {
		return err
	}
	for id := range g.used {
		rows[id] = true
	}
	for id := range rows {
		if err := errors.Join(plane.ClearCounters(g.p.Map("tg_counters"), id), fullAllowance(g.p.Map("tg_signed"), id)); err != nil {
			return err
		}
	}
	g.used = rows
	return g.ns.want(v.Socket)
}

// fillSocketFilter says of every tuple whether it may have a socket. With all filter keys zero each has cell 0; its upper half counts live
// sockets, and the lowest bits of the bitmap and of its front say that it may be alive.
func fillSocketFilter(p *plane.Plane, maybe bool) error {
	const bitmap = 1 << 20 / 64 / 8 // TG_FILTER_FRONT_WORDS
	bits := p.Map("tg_socket_bits")
	return errors.Join(p.Map("tg_sockets").Put(uint32(0), uint32(bit(maybe))<<16),
		plane.SetEntry(bits, 0, uint64(bit(maybe))), plane.SetEntry(bits, bitmap, uint64(bit(maybe))))
}

var xdpVerdicts = map[uint32]vectors.Verdict{1: vectors.Drop, 2: vectors.Pass, 3: vectors.TX}

func run(prog *ebpf.Program, in []byte) (uint32, []byte, error) {
	o := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256)}
	ret, err := prog.Run(&o)
	return ret, o.DataOut, err
}

func (g *kernelGate) Packet(in []byte) (vectors.Result, error) {
	if len(in) < ethernetHeaderLen { // the kernel accepts no such test frame
		g.short++
		return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
	}
	ret, out, err := run(g.xdp, in)
	if err != nil {
		return vectors.Result{}, fmt.Errorf("XDP: %w", err)
	}
	verdict, ok := xdpVerdicts[ret]
	if !ok {
		return vectors.Result{}, fmt.Errorf("XDP returned %d", ret)
	}
	if verdict != vectors.Pass || len(in) == ethernetHeaderLen {
		return vectors.Result{Verdict: verdict, Out: out}, nil
	}
	ret, out, err = run(g.tc, out)
	if errors.Is(err, unix.EINVAL) && len(in) < ethernetHeaderLen+ipv6HeaderLen {
		g.short++ // no whole IP header: no test packet either; TC leaves it alone
		return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
	}
	if err != nil {
		return vectors.Result{}, fmt.Errorf("TC: %w", err)
	}
	if int32(ret) != -1 { // TCX_NEXT
		return vectors.Result{}, fmt.Errorf("TC returned %d, must always let the frame go on", int32(ret))
	}
	return vectors.Result{Verdict: vectors.Pass, Out: out}, nil
}

func (g *kernelGate) Counters() (vectors.Counters, error) {
	c := vectors.Counters{}
	for id := range g.used {
		sum, err := plane.ReadCounters(g.p.Map("tg_counters"), id)
		if err != nil {
			return nil, err
		}
		for name, n := range schema.Map(sum) {
			if n != 0 {
				if c[id] == nil {
					c[id] = map[string]uint64{}
				}
				c[id][name] = n
			}
		}
	}
	return c, nil
}

// straysCounted checks every row of the counters: only those of the last
// vector may be other than zero, as all others were cleared or never touched.
func (g *kernelGate) straysCounted() (ids []uint32, err error) {
	for id := range g.p.Map("tg_counters").MaxEntries() {
		sum, err := plane.ReadCounters(g.p.Map("tg_counters"), id)
		if err != nil {
			return nil, err
		}
		if !g.used[id] && sum != [schema.NumCounters]uint64{} {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
