// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/keys"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
	"tidegate/internal/version"
)

// paperFlows is the setting of SmartCookie's figure 7: 7.66 % false positives in
// 3 x 2^20 positions.
const paperFlows = 579_600

// EdgeResult is one run of `tidegate-lab bench --role edge`. Medians; spreads hold the
// ranges over the rounds.
type EdgeResult struct {
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Rounds  int    `json:"rounds"`
	Pinning string `json:"pinning"`

	SipHashNs float64 `json:"siphash24_ns"` // SipHash-2-4 of 16 bytes: how fast this core is at the moment

	// A SYN of a flood, above the plain reflection of a frame in the same place: the
	// edge, and the host role there.
	SYNAboveReflect     map[string]float64 `json:"syn_ns_above_reflect"`
	SYNHostAboveReflect map[string]float64 `json:"syn_host_ns_above_reflect"`
	// A packet of an ACK flood dropped at the edge, above a drop in the same place.
	ACKAboveDrop map[string]float64 `json:"ack_ns_above_drop"`
	// The same with a filter as full as the paper's: its false positives are forwarded, which costs
	// a route look-up, and the server's kernel, without a role here, answers them.
	ACKPaperAboveDrop float64 `json:"ack_ns_above_drop_at_paper_fill"`
	FPComputed        float64 `json:"fp_rate_computed_at_paper_fill"`
	FPMeasured        float64 `json:"fp_rate_measured_at_paper_fill"`
	// A packet of a flow that the filter knows, above a bridge in XDP that does nothing else.
	KnownAboveBridge float64 `json:"known_ns_above_bridge"`
	// A packet that the server's final ACK check drops, above an empty TC program.
	FinalCheckNs float64 `json:"final_check_ns"`
	// The same with the options of otherACKs, by their names.
	FinalCheckOtherNs map[string]float64 `json:"final_check_other_options_ns"`

	FilterMiB    float64 `json:"filter_mib"`
	BytesPerFlow int     `json:"bytes_per_flow"` // on edge and server, beyond the filter and the kernel's socket

	Spreads map[string]Spread `json:"spreads"`
}

type edgeBench struct {
	ctx          context.Context
	opt          Options
	rig          *trial.Stand
	box          *rig.ProxyTopology
	yard         benchbpf.BenchObjects
	challengeAll bool // SYNs with timestamps, too, are looked up in the filter
	everywhere   bool // as of proxyBench
	res          *EdgeResult
}

// RunEdge measures the edge, and the server's final ACK check, once.
func RunEdge(ctx context.Context, opt Options) (res *EdgeResult, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the benchmark needs root, for network namespaces and BPF: run it with sudo")
	}
	if opt.Progress == nil {
		opt.Progress = func(string, ...any) {}
	}
	labOptions := trial.DefaultOptions()
	labOptions.Exe, labOptions.Progress = opt.Exe, opt.Progress
	rig, box, err := trial.NewProxyStand(labOptions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	b := &edgeBench{ctx: ctx, opt: opt, rig: rig, box: box}
	if err := benchbpf.LoadBenchObjects(&b.yard, nil); err != nil {
		return nil, err
	}
	defer b.yard.Close()
	b.res = &EdgeResult{Version: version.Version, Kernel: kernelRelease(), CPU: cpuModel(), Rounds: opt.Rounds,
		Pinning:         fmt.Sprintf("generator, program and answer on CPU %d", rig.FloodCPU()),
		SYNAboveReflect: map[string]float64{}, SYNHostAboveReflect: map[string]float64{}, ACKAboveDrop: map[string]float64{}, FinalCheckOtherNs: map[string]float64{},
		FilterMiB: float64(plane.FilterBytes(20)) / (1 << 20), Spreads: map[string]Spread{}}
	for _, part := range []struct {
		what string
		run  func() error
	}{
		{"SipHash", b.measureHash},
		{"cost of a SYN", b.measureSYN},
		{"cost of an ACK flood's packet", b.measureACK},
		{"cost of a known flow's packet", b.measureKnown},
		{"the server's final ACK check", b.measureFinalCheck},
	} {
		opt.Progress("measuring %s", part.what)
		if err := errors.Join(part.run(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return b.res, nil
}

// newEdge loads the edge as `tidegate run` would fill it, for port 80: it drops
// unknown flows.
func (b *edgeBench) newEdge(bridge [2]uint32) (*plane.Edge, error) {
	e, err := plane.LoadEdge(plane.EdgeOptions{Options: plane.Options{KeySlots: 1024}, BloomBits: 20})
	if err != nil {
		return nil, err
	}
	own := plane.EdgeSettings{UnknownCostNs: plane.AllowNone, Hops: 16}
	for i := range own.BloomKey.K {
		for j := range own.BloomKey.K[i] {
			var key [8]byte
			_, _ = rand.Read(key[:]) // never fails (crypto/rand)
			own.BloomKey.K[i][j] = binary.LittleEndian.Uint64(key[:])
		}
	}
	s := benchSettings()
	inside := func(name string) bool { return name == b.box.InnerPort.Name }
	err = errors.Join(putKeys(e.Plane, time.Duration(s.EpochLenNs)), e.SetEdge(own), e.SetForwarding(bridge, false),
		b.box.Proxy.Do(func() error {
			return e.SetEdgePorts(plane.EdgePorts{Interfaces: []string{b.box.FloodPort.Name, b.box.LegitPort.Name, b.box.InnerPort.Name},
				Inside: inside, ChallengeAll: b.challengeAll, Bridged: bridge[0] != 0})
		}),
		e.SetServices([]plane.Target{{ID: 1, Ports: [][2]uint16{{80, 80}},
			Prefixes: servers(b.box, b.everywhere),
			Service: plane.Service{MssV4: 1460, MssV6: 1440, Window: 64240, Wscale: 7, Sack: 1, Timestamps: 1, Ecn: 1,
				Mode: plane.ModeAlways}}}, &s))
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func benchSettings() plane.Settings {
	return plane.Settings{EpochLenNs: uint64(8 * time.Second), VerifyAheadNs: uint64(2 * time.Second),
		WallMinusMonoNs: plane.WallMinusMonoNs(time.Now()), FilterKeepTicks: 9}
}

func putKeys(p *plane.Plane, epoch time.Duration) error {
	var secret keys.Secret
	_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
	for _, n := range keys.Epochs(time.Now(), epoch, time.Hour) {
		if err := p.PutKey(n, secret.EpochKey(n)); err != nil {
			return err
		}
	}
	return nil
}

func (b *edgeBench) measureHash() error {
	res := &Result{Spreads: b.res.Spreads}
	err := measureHash(b.ctx, b.opt, b.rig, res)
	b.res.SipHashNs = res.SipHashNs
	return err
}

func (b *edgeBench) newFlood(ipv6 bool, flags load.TCPFlags, mix load.FloodMix) (*load.Flood, error) {
	return load.NewFlood(b.rig.AttackerPort, b.rig.FloodPort, load.FloodOptions{Target: b.box.ServiceAddr(ipv6, 80),
		Flags: flags, Mix: mix, CPU: b.rig.FloodCPU()})
}

// above records one difference.
func (b *edgeBench) above(name string, ours, yard []float64) float64 {
	s := spread(differences(ours, yard))
	b.res.Spreads[name] = s
	return s.Median
}

func (b *edgeBench) measureSYN() error {
	place, err := newSlot(b.rig, b.yard.TgBenchReflect)
	if err != nil {
		return err
	}
	defer place.link.Close()
	for _, kind := range synKinds {
		flood, err := b.newFlood(kind.ipv6, load.FlagSYN, kind.mix)
		if err != nil {
			return err
		}
		ns, err := inTurns(b.ctx, b.opt.Rounds, b.edgeAndHost, inSlot(place, flood, b.opt.Frames))
		if err := errors.Join(err, flood.Close()); err != nil {
			return err
		}
		b.res.SYNAboveReflect[kind.name] = b.above("syn_ns_above_reflect "+kind.name, ns[1], ns[0])
		b.res.SYNHostAboveReflect[kind.name] = b.above("syn_host_ns_above_reflect "+kind.name, ns[2], ns[0])
	}
	return nil
}

// edgeAndHost are the reflection, the edge and the host role, loaded anew.
func (b *edgeBench) edgeAndHost() ([]*ebpf.Program, func(), error) {
	e, err := b.newEdge([2]uint32{})
	if err != nil {
		return nil, nil, err
	}
	gate, err := newGate(0)
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	unload := func() { e.Close(); gate.Close() }
	if err := ownsAddresses(gate, plane.OwnPort{Index: b.box.FloodPort.Index, MACs: []net.HardwareAddr{b.box.FloodPort.MAC},
		Gateway: [2]net.HardwareAddr{b.rig.AttackerPort.MAC, b.rig.AttackerPort.MAC}}); err != nil {
		unload()
		return nil, nil, err
	}
	edgeXDP, _ := e.Programs()
	hostXDP, _ := gate.Programs()
	return []*ebpf.Program{b.yard.TgBenchReflect, edgeXDP, hostXDP}, unload, nil
}

// ackKinds are the ACKs that are distinguished: without options, with timestamps as nearly every sender lays them out, and
// as an attacker may.
var ackKinds = []struct {
	name string
	ipv6 bool
	mix  load.FloodMix
}{
	{"v4", false, load.MixBare},
	{"v6", true, load.MixBare},
	{"v4-ts", false, load.MixTS},
	{"v4-odd", false, load.MixOdd},
	{"v4-many", false, load.MixMany},
}

// measureACK measures ACKs of which each has a new tuple, so the filter is as cold as in a flood.
func (b *edgeBench) measureACK() error {
	place, err := newSlot(b.rig, b.yard.TgBenchDrop)
	if err != nil {
		return err
	}
	defer place.link.Close()
	for _, kind := range ackKinds {
		flood, err := b.newFlood(kind.ipv6, load.FlagACK, kind.mix)
		if err != nil {
			return err
		}
		ns, err := inTurns(b.ctx, b.opt.Rounds, b.dropAndEdge, inSlot(place, flood, b.opt.Frames))
		if err == nil {
			b.res.ACKAboveDrop[kind.name] = b.above("ack_ns_above_drop "+kind.name, ns[1], ns[0])
			if kind.name == "v4" {
				err = b.measurePaperFill(place, flood)
			}
		}
		if err := errors.Join(err, flood.Close()); err != nil {
			return err
		}
	}
	return nil
}

// dropAndEdge are a drop and an edge whose filter is empty, loaded anew.
func (b *edgeBench) dropAndEdge() ([]*ebpf.Program, func(), error) {
	e, err := b.newEdge([2]uint32{})
	if err != nil {
		return nil, nil, err
	}
	prog, _ := e.Programs()
	return []*ebpf.Program{b.yard.TgBenchDrop, prog}, func() { e.Close() }, nil
}

// measurePaperFill fills the filter as full as the paper's.
func (b *edgeBench) measurePaperFill(place *slot, flood *load.Flood) error {
	const probes = 65536
	e, err := b.newEdge([2]uint32{})
	if err != nil {
		return err
	}
	defer e.Close()
	prog, _ := e.Programs()
	e.Prefill(paperFlows, func() uint64 {
		var raw [8]byte
		_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
		return binary.LittleEndian.Uint64(raw[:])
	})
	b.res.FPComputed = plane.FPRateOf(paperFlows, 20)
	known := uint32(0)
	for range 16 {
		n, err := e.Probe(probes)
		if err != nil {
			return err
		}
		known += n
	}
	b.res.FPMeasured = float64(known) / (16 * probes)
	ns, err := inTurns(b.ctx, b.opt.Rounds, loaded(b.yard.TgBenchDrop, prog), inSlot(place, flood, b.opt.Frames))
	if err != nil {
		return err
	}
	b.res.ACKPaperAboveDrop = b.above("ack_ns_above_drop_at_paper_fill", ns[1], ns[0])
	return nil
}

// newKnowing loads an edge as a bridge, whose filter knows every flow. A bridge leaves a packet unchanged, so that it can be repeated.
func (b *edgeBench) newKnowing() (*plane.Edge, error) {
	e, err := b.newEdge([2]uint32{uint32(b.box.LegitPort.Index), uint32(b.box.InnerPort.Index)})
	if err != nil {
		return nil, err
	}
	e.Prefill(1<<23, func() uint64 {
		var raw [8]byte
		_, _ = rand.Read(raw[:])
		return binary.LittleEndian.Uint64(raw[:])
	})
	return e, nil
}

// measureKnown repeats one packet of a flow in the filter.
func (b *edgeBench) measureKnown() error {
	e, err := b.newKnowing()
	if err != nil {
		return err
	}
	defer e.Close()
	prog, _ := e.Programs()
	p := &proxyBench{box: b.box}
	ns, err := inTurns(b.ctx, b.opt.Rounds, loaded(b.yard.TgBenchBridge, prog), p.segmentTurn(p.segmentFrame(40000)))
	if err != nil {
		return err
	}
	b.res.KnownAboveBridge = b.above("known_ns_above_bridge", ns[1], ns[0])
	return nil
}

// newFinalCheck loads a server's TC program whose final ACK check drops.
func newFinalCheck() (*plane.Plane, error) {
	gate, err := plane.Load(plane.Options{KeySlots: 1024, NoXDP: true})
	if err != nil {
		return nil, err
	}
	s := benchSettings()
	s.BehindEdge, s.FinalCheck = 1, 1
	for i := range s.FilterKeys {
		s.FilterKeys[i] = uint64(i)*0x9e3779b97f4a7c15 | 1
	}
	if err := errors.Join(putKeys(gate, time.Duration(s.EpochLenNs)), gate.SetServices(benchServices(0), &s), gate.ForgetKernelSYNs()); err != nil {
		gate.Close()
		return nil, err
	}
	return gate, nil
}

// otherACKs are the options of ACKs that no system sends, 20 of which take longest.
var otherACKs = map[string]string{"odd": "080a00000001000000020101", "many": strings.Repeat("fd02", 20)}

// measureFinalCheck measures an ACK that has neither socket nor cookie.
func (b *edgeBench) measureFinalCheck() error {
	ns, err := inTurns(b.ctx, b.opt.Rounds, b.emptyAndFinalCheck, repeatNs)
	if err != nil {
		return err
	}
	b.res.FinalCheckNs = b.above("final_check_ns", ns[1], ns[0])
	for name, options := range otherACKs {
		frame := ackWithOptions(ackFrameOf("v4", nil), options)
		ns, err := inTurns(b.ctx, b.opt.Rounds, b.emptyAndFinalCheck, func(prog *ebpf.Program) (float64, error) { return repeatFrameNs(prog, frame) })
		if err != nil {
			return err
		}
		b.res.FinalCheckOtherNs[name] = b.above("final_check_ns "+name, ns[1], ns[0])
	}
	return nil
}

// emptyAndFinalCheck are an empty TC program and a server's, loaded anew.
func (b *edgeBench) emptyAndFinalCheck() ([]*ebpf.Program, func(), error) {
	gate, err := newFinalCheck()
	if err != nil {
		return nil, nil, err
	}
	_, tc := gate.Programs()
	if ret, err := tc.Run(&ebpf.RunOptions{Data: ackFrame()}); err != nil || ret != tcxDrop {
		gate.Close()
		return nil, nil, fmt.Errorf("the final ACK check let an unknown ACK through: %d, %w", int32(ret), err)
	}
	return []*ebpf.Program{b.yard.TgBenchTc, tc}, func() { gate.Close() }, nil
}

// Print writes the result as tables.
func (r *EdgeResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, Linux %s, %s\n%s\n%d rounds; median [min .. max]\n\n", r.Version, r.Kernel, r.CPU, r.Pinning, r.Rounds)
	fmt.Fprintf(t, "SipHash-2-4 of 16 bytes in BPF on this core: %s ns\n\n", r.Spreads["siphash24_ns"])
	fmt.Fprintln(t, "SYN\tEDGE, ns ABOVE REFLECT\tHOST ROLE, THE SAME")
	for _, k := range synKinds {
		fmt.Fprintf(t, "%s\t%s\t%s\n", k.name, r.Spreads["syn_ns_above_reflect "+k.name], r.Spreads["syn_host_ns_above_reflect "+k.name])
	}
	fmt.Fprintln(t, "\nFLOOD OF ACKs\tns ABOVE DROP")
	for _, k := range ackKinds {
		fmt.Fprintf(t, "%s, dropped\t%s\n", k.name, r.Spreads["ack_ns_above_drop "+k.name])
	}
	fmt.Fprintf(t, "v4, %d flows in the filter, forwarding and server included\t%s\n", paperFlows, r.Spreads["ack_ns_above_drop_at_paper_fill"])
	fmt.Fprintf(t, "false positives then\t%.4f %% computed, %.4f %% measured (+- %.4f)\n", 100*r.FPComputed, 100*r.FPMeasured,
		100*math.Sqrt(r.FPComputed*(1-r.FPComputed)/(16*65536)))
	fmt.Fprintf(t, "\nPACKET OF A KNOWN FLOW\t%s ns above a plain XDP bridge\n", r.Spreads["known_ns_above_bridge"])
	fmt.Fprintf(t, "SERVER'S FINAL ACK CHECK\t%s ns above an empty TC program\n", r.Spreads["final_check_ns"])
	for _, name := range slices.Sorted(maps.Keys(otherACKs)) {
		fmt.Fprintf(t, "of ACKs with %s options\t%s ns\n", name, r.Spreads["final_check_ns "+name])
	}
	fmt.Fprintf(t, "\nFILTER\t%.2f MiB; a flow costs edge and server %d bytes besides\n", r.FilterMiB, r.BytesPerFlow)
	return t.Flush()
}
