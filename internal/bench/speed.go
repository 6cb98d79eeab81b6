// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"tidegate/internal/bpfcount"
	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/proxybpf"
	"tidegate/internal/version"
)

// SpeedResult is one run of `tidegate-lab bench speed`: what every packet path costs.
type SpeedResult struct {
	Version   string      `json:"version"`
	Kernel    string      `json:"kernel"`
	CPU       string      `json:"cpu"`
	Rounds    int         `json:"rounds"`       // of what was timed; 0: nothing
	SipHashNs *Spread     `json:"siphash24_ns"` // the unit H
	Paths     []SpeedPath `json:"paths"`
	Lines     int         `json:"-"` // of source to print of each path
}

// SpeedPath is what a packet costs in one program.
type SpeedPath struct {
	Path         string  `json:"path"`
	Frame        string  `json:"frame"` // one of synFrames, or what is particular about it
	Instructions int     `json:"instructions"`
	Helpers      int     `json:"helpers"` // kernel functions called, each counted as one instruction
	Calls        int     `json:"calls"`   // of them, and of the program's own functions, those that the kernel does not inline
	Ns           *Spread `json:"ns"`      // above the same path with a program that does the least; null: not measured
	H            float64 `json:"h"`       // that median, in SipHashes

	counted *bpfcount.Result
}

// What a program returns.
const (
	xdpDrop, xdpPass, xdpTx, xdpRedirect = 1, 2, 3, 4
	tcxNext, tcxDrop, tcxRedirect        = 0xffffffff, 2, 7
)

var frameKinds = []string{"v4-ts", "v4", "v6-ts", "v6"}

// RunSpeed counts the instructions of every path; timed measures their time, too, all in one run.
func RunSpeed(ctx context.Context, opt Options, timed bool) (*SpeedResult, error) {
	res := &SpeedResult{Version: version.Version, Kernel: kernelRelease(), CPU: cpuModel()}
	s := &speedBench{res: res}
	parts := []part{{what: "instructions of every path", run: s.count}}
	if timed {
		res.Rounds = opt.Rounds
		parts = append(parts, yardstick, part{what: "the time of every path", run: s.time})
	}
	if _, err := runProxyParts(ctx, opt, parts); err != nil {
		return nil, err
	}
	return res, nil
}

type speedBench struct {
	*proxyBench
	res *SpeedResult
}

// count counts the instructions of every path.
func (s *speedBench) count(b *proxyBench) error {
	s.proxyBench = b
	for _, of := range []func() error{s.countHost, s.countEdge, s.countFinalCheck, s.countProxySYNs, s.countSegments, s.countSetup} {
		if err := errors.Join(of(), b.ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// one counts a frame's instructions in a program that is loaded; want is what it must return.
func (s *speedBench) one(path, kind string, prog *ebpf.Program, load func() (*ebpf.CollectionSpec, error), name string, frame []byte, ifindex int,
	want uint32) (*bpfcount.Result, error) {
	spec, err := load()
	if err != nil {
		return nil, err
	}
	maps, closeMaps, err := bpfcount.Maps(prog)
	if err != nil {
		return nil, err
	}
	defer closeMaps()
	if err := rememberEpoch(maps); err != nil {
		return nil, err
	}
	run := bpfcount.XDP
	if spec.Programs[name].Type == ebpf.SchedCLS {
		run = bpfcount.TC
	}
	r, err := run(spec.Programs[name], maps, frame, uint32(ifindex))
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", path, kind, err)
	}
	if r.Action != want {
		return nil, fmt.Errorf("%s, %s: the program returned %d, want %d: this is not the path", path, kind, int32(r.Action), int32(want))
	}
	helpers := 0
	for _, n := range r.Calls {
		helpers += n
	}
	s.res.Paths = append(s.res.Paths, SpeedPath{Path: path, Frame: kind, Instructions: r.Instructions, Helpers: helpers, Calls: r.Returns, counted: r})
	return r, nil
}

// rememberEpoch has the packet path know the epoch, that its key is loaded, and the time, as it does after its first packet: only one packet in
// two epochs divides (core/keys.h), one looks whether there is a key (tg_keys_fail_open), and one in a jiffy asks the clock (bpf/lib/clock.h). And it sets its clock to a quarter of an odd epoch, so that counts are the same in every run.
func rememberEpoch(maps map[string]*ebpf.Map) error {
	m, has := maps[plane.VarSettings]
	if !has {
		return nil
	}
	var s plane.Settings
	if err := m.Lookup(uint32(0), &s); err != nil || s.EpochLenNs == 0 {
		return err
	}
	now := uint64(plane.MonotonicNs()) + s.WallMinusMonoNs
	s.EpochNear = now/s.EpochLenNs | 1
	s.WallMinusMonoNs += s.EpochNear*s.EpochLenNs + s.EpochLenNs/4 - now
	s.ClockJiffy, s.ClockNs = bpfcount.Jiffies, uint64(plane.MonotonicNs())&^0xffff|bpfcount.Jiffies&0xffff
	if err := m.Put(uint32(0), &s); err != nil {
		return err
	}
	var tables plane.Filling
	tablesMap, has := maps[plane.VarFilling]
	if !has {
		return nil // nothing that the program does has to know it
	}
	if err := tablesMap.Lookup(uint32(0), &tables); err != nil {
		return err
	}
	tables.Loaded = s.EpochNear ^ tables.Filling
	return tablesMap.Put(uint32(0), &tables)
}

const (
	pathHostXDP     = "host: segment of a live connection, XDP"
	pathHostTC      = "host: segment of a live connection, TC"
	pathHostSYN     = "host: SYN answered"
	pathEdgeSYN     = "edge: SYN answered"
	pathEdgeACK     = "edge: ACK of a flood, dropped"
	pathEdgeKnown   = "edge: segment of a known flow"
	pathFinalCheck  = "server: ACK of a flood, dropped by the final ACK check"
	pathProxySYN    = "proxy: SYN answered, "
	pathTranslated  = "proxy: segment translated"
	pathForwarded   = "proxy: segment forwarded, source verified"
	pathSetupACK    = "proxy: new connection, the ACK that verifies"
	pathSetupSYNACK = "proxy: new connection, the server's SYN-ACK, XDP"
	pathSetupTwin   = "proxy: new connection, the twin that becomes the server's ACK"
	pathSetupDefer  = "proxy: new connection, the server's SYN-ACK, defer_accept, XDP"
	pathSetupLeft   = "proxy: new connection, the server's SYN-ACK, generic XDP, which leaves it to TC"
	pathSetupTC     = "proxy: new connection, the server's SYN-ACK, TC"
)

func (s *speedBench) countHost() error {
	gate, err := newGate(0)
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := ownsAddresses(gate, testPort); err != nil {
		return err
	}
	xdp, tc := gate.Programs()
	for _, kind := range frameKinds {
		if _, err := s.one(pathHostSYN, kind, xdp, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, synFrame(kind, nil), 1, xdpTx); err != nil {
			return err
		}
	}
	if err := makeLive(gate); err != nil {
		return err
	}
	for _, kind := range frameKinds {
		_, err := s.one(pathHostXDP, kind, xdp, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, ackFrameOf(kind, nil), 1, xdpPass)
		if err != nil {
			return err
		}
	}
	for _, kind := range frameKinds {
		_, err := s.one(pathHostTC, kind, tc, hostbpf.LoadHostTc, hostbpf.HostTcProgTgHostTc, ackFrameOf(kind, nil), 1, tcxNext)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *speedBench) countEdge() error {
	e, err := s.edge().newEdge([2]uint32{})
	if err != nil {
		return err
	}
	defer e.Close()
	prog, _ := e.Programs()
	port := s.box.FloodPort
	for _, kind := range frameKinds {
		_, err := s.one(pathEdgeSYN, kind, prog, edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, synFrame(kind, port.MAC), port.Index, xdpTx)
		if err != nil {
			return err
		}
	}
	for _, kind := range frameKinds {
		_, err := s.one(pathEdgeACK, kind, prog, edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, ackFrameOf(kind, port.MAC), port.Index, xdpDrop)
		if err != nil {
			return err
		}
	}
	return s.countKnown()
}

// countKnown counts a segment of a flow in the edge's filter, as measureKnown times it.
func (s *speedBench) countKnown() error {
	e, err := s.edge().newKnowing()
	if err != nil {
		return err
	}
	defer e.Close()
	prog, _ := e.Programs()
	_, err = s.one(pathEdgeKnown, "v4-ts, bridge", prog, edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, s.segmentFrame(40000), s.box.LegitPort.Index,
		xdpRedirect)
	return err
}

// edge is the bench of the edge, in the same place, with `challenge: all`, the default.
func (s *speedBench) edge() *edgeBench {
	return &edgeBench{ctx: s.ctx, opt: s.opt, rig: s.rig, box: s.box, yard: s.yard, challengeAll: true, res: &EdgeResult{SYNAboveReflect: map[string]float64{},
		SYNHostAboveReflect: map[string]float64{}, ACKAboveDrop: map[string]float64{}, FinalCheckOtherNs: map[string]float64{}, Spreads: map[string]Spread{}}}
}

func (s *speedBench) countFinalCheck() error {
	gate, err := newFinalCheck()
	if err != nil {
		return err
	}
	defer gate.Close()
	_, tc := gate.Programs()
	for _, kind := range frameKinds {
		if _, err := s.one(pathFinalCheck, kind, tc, hostbpf.LoadHostTc, hostbpf.HostTcProgTgHostTc, ackFrameOf(kind, nil), 1, tcxDrop); err != nil {
			return err
		}
	}
	return nil
}

func (s *speedBench) countProxySYNs() error {
	for _, strategy := range config.Strategies() {
		p, err := s.newProxy(strategy, 1<<12)
		if err != nil {
			return err
		}
		xdp, _ := p.Programs()
		_, err = s.one(pathProxySYN+string(strategy), "v4-ts", xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp,
			synFrame("v4-ts", s.box.FloodPort.MAC), s.box.FloodPort.Index, xdpTx)
		p.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *speedBench) countSegments() error {
	translated, forwarded, err := s.segmentProxies(s.segmentFrame(40000))
	if err != nil {
		return err
	}
	defer translated.Close()
	defer forwarded.Close()
	for _, of := range []struct {
		path string
		p    *plane.Proxy
	}{{pathTranslated, translated}, {pathForwarded, forwarded}} {
		xdp, _ := of.p.Programs()
		if _, err := s.one(of.path, "v4-ts, bridge", xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, s.segmentFrame(40000),
			s.box.LegitPort.Index, xdpRedirect); err != nil {
			return err
		}
	}
	return nil
}

// countSetup lets a client connect through the kernel's programs, and counts the instructions of the two steps that
// make the connection; the second without and with defer_accept.
func (s *speedBench) countSetup() error {
	p, err := s.newBridge(config.StrategyCookie, 1<<12)
	if err != nil {
		return err
	}
	defer p.Close()
	xdp, tc := p.Programs()
	syn := synFrame("v4", nil)
	ack, err := s.answered(xdp, syn)
	if err != nil {
		return err
	}
	if _, err := s.one(pathSetupACK, "v4, bridge", xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, ack, s.box.LegitPort.Index,
		xdpRedirect); err != nil {
		return err
	}
	opened, err := s.through(xdp, ack, s.box.LegitPort.Index, xdpRedirect)
	if err != nil {
		return err
	}
	answer := slices.Clone(syn)
	copy(answer[26:], syn[30:34])
	copy(answer[30:], syn[26:30])
	copy(answer[34:], syn[36:38])
	copy(answer[36:], syn[34:36])
	binary.BigEndian.PutUint32(answer[38:], 0x55667788)
	binary.BigEndian.PutUint32(answer[42:], binary.BigEndian.Uint32(opened[38:])+1)
	answer[47] = 0x12
	putSums(answer)
	of := func(path string, program *ebpf.Program, load func() (*ebpf.CollectionSpec, error), name string, frame []byte, want uint32) error {
		_, err := s.one(path, "v4, bridge", program, load, name, frame, s.box.InnerPort.Index, want)
		return err
	}
	again := func(defers bool) error { // the flow waits for its SYN-ACK once more
		err := errors.Join(p.ForgetFlows(), p.SetStrategy(1, proxyServiceOf(config.StrategyCookie, defers)))
		if err == nil {
			_, err = s.through(xdp, ack, s.box.LegitPort.Index, xdpRedirect)
		}
		return err
	}
	if err := of(pathSetupSYNACK, xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, answer, xdpRedirect); err != nil {
		return err
	}
	window, err := s.through(xdp, answer, s.box.InnerPort.Index, xdpRedirect)
	if err != nil {
		return err
	}
	if err := of(pathSetupTwin, p.Twin(), proxybpf.LoadProxyTwin, proxybpf.ProxyTwinProgTgProxyTwin, window, xdpPass); err != nil {
		return err
	}
	if err := again(true); err != nil {
		return err
	}
	if err := of(pathSetupDefer, xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, answer, xdpRedirect); err != nil {
		return err
	}
	if err := errors.Join(again(false), p.SetTwins(nil)); err != nil {
		return err
	}
	if err := of(pathSetupLeft, xdp, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, answer, xdpPass); err != nil {
		return err
	}
	return of(pathSetupTC, tc, proxybpf.LoadProxyTc, proxybpf.ProxyTcProgTgProxyTc, answer, tcxRedirect)
}

// time measures the paths that were counted.
func (s *speedBench) time(b *proxyBench) error {
	edge := s.edge()
	host := &Result{Spreads: map[string]Spread{}}
	for _, of := range []struct {
		what string
		run  func() error
	}{
		{"SYNs at the proxy, strategy by strategy", b.measureSYN},
		{"SYNs at edge and host", edge.measureSYN},
		{"an ACK flood at the edge", edge.measureACK},
		{"a known flow at the edge", edge.measureKnown},
		{"the final ACK check", edge.measureFinalCheck},
		{"a live connection's segments at a host", func() error { return measureEstablished(b.ctx, b.opt, nil, host) }},
		{"segments through the proxy", b.measureSegments},
		{"new connections through the proxy", b.measureSetup},
	} {
		b.opt.Progress("%s", of.what)
		if err := errors.Join(of.run(), b.ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", of.what, err)
		}
	}
	hash := b.res.Spreads["siphash24_ns"]
	s.res.SipHashNs = &hash
	for i := range s.res.Paths {
		p := &s.res.Paths[i]
		if ns, timed := s.timeOf(p, edge.res.Spreads, host.Spreads); timed {
			p.Ns, p.H = &ns, ns.Median/hash.Median
		}
	}
	return nil
}

// timeOf finds a path's time.
func (s *speedBench) timeOf(p *SpeedPath, edge, host map[string]Spread) (Spread, bool) {
	from, name := s.proxyBench.res.Spreads, ""
	family, ts := p.Frame[:2], strings.HasSuffix(p.Frame, "-ts")
	switch p.Path {
	case pathHostXDP, pathHostTC:
		if p.Frame != "v4-ts" {
			return Spread{}, false
		}
		from, name = host, "established_ns_above_pass "+map[string]string{pathHostXDP: "xdp", pathHostTC: "tc"}[p.Path]
	case pathHostSYN:
		from, name = edge, "syn_host_ns_above_reflect "+p.Frame
	case pathEdgeSYN:
		from, name = edge, "syn_ns_above_reflect "+p.Frame
	case pathEdgeACK:
		if !ts { // the flood has both
			return Spread{}, false
		}
		from, name = edge, "ack_ns_above_drop "+family
	case pathEdgeKnown:
		from, name = edge, "known_ns_above_bridge"
	case pathFinalCheck:
		if p.Frame != "v4-ts" {
			return Spread{}, false
		}
		from, name = edge, "final_check_ns"
	case pathTranslated:
		name = "translate_ns"
	case pathForwarded:
		name = "forward_ns"
	case pathSetupACK:
		return s.proxyBench.res.SetupBridge.StepNs["ack"], true
	case pathSetupSYNACK:
		return s.proxyBench.res.SetupBridge.StepNs["synack"], true
	case pathSetupDefer:
		return s.proxyBench.res.SetupBridge.StepNs["synack_deferred"], true
	default:
		name = "ns_above_reflect " + strings.TrimPrefix(p.Path, pathProxySYN)
	}
	v, timed := from[name]
	return v, timed
}
