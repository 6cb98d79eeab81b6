// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/version"
)

// ProxyResult is one run of `tidegate-lab bench --role proxy`. Medians; spreads hold
// the ranges over the rounds.
type ProxyResult struct {
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Rounds  int    `json:"rounds"`
	Pinning string `json:"pinning"`

	SipHashNs float64 `json:"siphash24_ns"` // SipHash-2-4 of 16 bytes: how fast this core is at the moment

	// A SYN of a flood, above the plain reflection of a frame in the same place.
	NsAboveReflect map[string]float64 `json:"ns_above_reflect"`
	// A segment of a live connection, above a bridge in XDP that does nothing else.
	TranslateNs float64 `json:"translate_ns"` // strategy cookie
	ForwardNs   float64 `json:"forward_ns"`   // auth: the source is whitelisted
	BridgeNs    float64 `json:"bridge_ns"`    // that bridge's own

	GoodputRatio float64            `json:"goodput_ratio"` // translated, over a plain router in XDP
	GoodputGbps  map[string]float64 `json:"goodput_gbps"`

	Flows         int     `json:"flows"` // in the table for what follows
	TableMiB      float64 `json:"table_mib"`
	BytesPerFlow  float64 `json:"bytes_per_flow"`
	TranslateFull float64 `json:"translate_ns_full"` // TranslateNs with that many flows
	SwapStall     float64 `json:"swap_stall_ms"`     // longest wait of a packet while tables are swapped
	SwapBaseline  float64 `json:"swap_no_stall_ms"`  // the same while nothing is swapped
	SwapTakes     float64 `json:"swap_takes_ms"`     // what userspace spends on it

	// Of connections, as a router and as a bridge; null: not measured.
	Setup       *Setup `json:"setup"`
	SetupBridge *Setup `json:"setup_bridge"`

	Spreads map[string]Spread `json:"spreads"`
}

// proxyBench is what the parts share.
type proxyBench struct {
	ctx  context.Context
	opt  Options
	rig  *trial.Stand
	box  *rig.ProxyTopology
	yard benchbpf.BenchObjects
	res  *ProxyResult

	everywhere bool // the service is at all addresses, so that nothing is looked up to find it
}

// part is one group of figures.
type part struct {
	name, what string
	run        func(*proxyBench) error
}

var yardstick = part{"", "SipHash", (*proxyBench).measureHash}

var proxyParts = []part{
	{"syn", "cost of a SYN, strategy by strategy", (*proxyBench).measureSYN},
	{"segments", "cost of a segment, translated and forwarded", (*proxyBench).measureSegments},
	{"flows", "cost of a segment of many flows", (*proxyBench).measureManyFlows},
	{"setup", "connections set up in a second", (*proxyBench).measureSetup},
	{"goodput", "goodput of one connection", (*proxyBench).measureGoodput},
	{"table", "a million flows, and swapping them", (*proxyBench).measureTable},
}

// ProxyParts are the names of the groups of figures.
func ProxyParts() (names []string) {
	for _, p := range proxyParts {
		names = append(names, p.name)
	}
	return names
}

// RunProxy measures the proxy once, all of it or one part.
func RunProxy(ctx context.Context, opt Options) (*ProxyResult, error) {
	parts := []part{yardstick}
	for _, p := range proxyParts {
		if opt.Only == "" || opt.Only == p.name {
			parts = append(parts, p)
		}
	}
	return runProxyParts(ctx, opt, parts)
}

// RunProxySYN measures only what a SYN costs, and SipHash beside it.
func RunProxySYN(ctx context.Context, opt Options) (*ProxyResult, error) {
	opt.Only = "syn"
	return RunProxy(ctx, opt)
}

func runProxyParts(ctx context.Context, opt Options, parts []part) (res *ProxyResult, err error) {
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
	b := &proxyBench{ctx: ctx, opt: opt, rig: rig, box: box}
	if err := benchbpf.LoadBenchObjects(&b.yard, nil); err != nil {
		return nil, err
	}
	defer b.yard.Close()
	b.res = &ProxyResult{Version: version.Version, Kernel: kernelRelease(), CPU: cpuModel(), Rounds: opt.Rounds,
		Pinning: fmt.Sprintf("generator, program and answer on CPU %d", rig.FloodCPU()),
		Spreads: map[string]Spread{}}
	for _, part := range parts {
		opt.Progress("measuring %s", part.what)
		if err := part.run(b); err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return b.res, nil
}

// newBridge is newProxy as a bridge between the clients' port and the server's.
func (b *proxyBench) newBridge(strategy config.Strategy, flows int) (*plane.Proxy, error) {
	return b.load(strategy, flows, [2]uint32{uint32(b.box.LegitPort.Index), uint32(b.box.InnerPort.Index)})
}

// newProxy loads the router as `tidegate run` would fill it, for port 80.
func (b *proxyBench) newProxy(strategy config.Strategy, flows int) (*plane.Proxy, error) {
	return b.load(strategy, flows, [2]uint32{})
}

// load fills the programs for port 80.
func (b *proxyBench) load(strategy config.Strategy, flows int, bridge [2]uint32) (*plane.Proxy, error) {
	p, err := plane.LoadProxy(plane.ProxyOptions{Options: plane.Options{KeySlots: 1024},
		Flows: flows, Sources: 1 << 17, Halves: 1 << 16})
	if err != nil {
		return nil, err
	}
	epoch := 8 * time.Second
	s := plane.Settings{EpochLenNs: uint64(epoch), WallMinusMonoNs: plane.WallMinusMonoNs(time.Now())}
	secret := keys.Secret{1, 2, 3}
	for _, n := range keys.Epochs(time.Now(), epoch, time.Hour) {
		if err := p.PutKey(n, secret.EpochKey(n)); err != nil {
			return nil, errors.Join(err, closePlane(p))
		}
	}
	own := plane.ProxySettings{WhiteV4Mask: ^uint32(0), WhiteV6Mask: ^uint64(0), Bridge: bridge}
	if strategy.Translates() {
		own.Flows = 1
	} else {
		own.Plain = 1
	}
	err = errors.Join(
		b.box.Proxy.Do(func() error {
			ports := []string{b.box.FloodPort.Name, b.box.LegitPort.Name, b.box.InnerPort.Name}
			return errors.Join(p.SetPorts(ports), p.SetTwins(ports))
		}),
		p.SetStrategy(1, proxyServiceOf(strategy, false)),
		p.SetProxy(own),
		p.LearnServer(b.box.ServiceAddr(false, 80), everything()),
		p.LearnServer(b.box.ServiceAddr(true, 80), everything()),
		p.SetServices([]plane.Target{{ID: 1, Ports: [][2]uint16{{80, 80}},
			Prefixes: servers(b.box, b.everywhere),
			Service: plane.Service{MssV4: 1460, MssV6: 1440, Window: 64240, Wscale: 7, Sack: 1, Timestamps: 1,
				Mode: plane.ModeAlways}}}, &s))
	if err != nil {
		return nil, errors.Join(err, closePlane(p))
	}
	return p, nil
}

// proxyServiceOf is a service's entry beyond what every gate has.
func proxyServiceOf(strategy config.Strategy, defers bool) plane.ProxyService {
	s := plane.ProxyService{Strategy: schema.StrategyNumber(string(strategy))}
	if defers {
		s.DeferAccept = 1
	}
	return s
}

// everything is what a Linux server offers, learned just now.
func everything() plane.Learned {
	return plane.Learned{Mss: 1460, Wscale: 7, Sack: 1, Timestamps: 1, AskedMs: uint32(plane.MonotonicNs() / 1e6)}
}

func closePlane(p *plane.Proxy) error {
	p.Close()
	return nil
}

func (b *proxyBench) measureHash() error {
	res := &Result{Spreads: b.res.Spreads}
	err := measureHash(b.ctx, b.opt, b.rig, res)
	b.res.SipHashNs = res.SipHashNs
	return err
}

// measureSYN runs a random flood against the reflection and each strategy.
func (b *proxyBench) measureSYN() error {
	place, err := newSlot(b.rig, b.yard.TgBenchReflect)
	if err != nil {
		return err
	}
	defer place.link.Close()
	b.res.NsAboveReflect = map[string]float64{}
	for _, kind := range proxySYNKinds {
		if err := b.measureSYNsOf(place, kind.mix, kind.suffix); err != nil {
			return err
		}
	}
	return nil
}

// proxySYNKinds are the SYNs that are distinguished at the proxy, and what their figures' names end in.
var proxySYNKinds = []struct {
	suffix string
	mix    load.FloodMix
}{{"", load.MixTS}, {" bare", load.MixBare}, {" macos", load.MixMacOS}}

// measureSYNsOf measures every strategy with SYNs of one kind.
func (b *proxyBench) measureSYNsOf(place *slot, mix load.FloodMix, suffix string) error {
	flood, err := b.rig.NewFlood(false, mix)
	if err != nil {
		return err
	}
	ns, err := inTurns(b.ctx, b.opt.Rounds, b.everyStrategy, inSlot(place, flood, b.opt.Frames))
	if err := errors.Join(err, flood.Close()); err != nil {
		return err
	}
	for i, s := range config.Strategies() {
		above := spread(differences(ns[i+1], ns[0]))
		b.res.NsAboveReflect[string(s)+suffix] = above.Median
		b.res.Spreads["ns_above_reflect "+string(s)+suffix] = above
	}
	b.res.Spreads["ns_total reflect"+suffix] = spread(ns[0])
	return nil
}

// everyStrategy are the reflection, and a proxy of each strategy, loaded anew.
func (b *proxyBench) everyStrategy() (programs []*ebpf.Program, unload func(), err error) {
	var proxies []*plane.Proxy
	unload = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	programs = []*ebpf.Program{b.yard.TgBenchReflect}
	for _, strategy := range config.Strategies() {
		p, err := b.newProxy(strategy, 1<<20)
		if err != nil {
			unload()
			return nil, nil, err
		}
		proxies = append(proxies, p)
		xdp, _ := p.Programs()
		programs = append(programs, xdp)
	}
	return programs, unload, nil
}

// Print writes what was measured as tables.
func (r *ProxyResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, Linux %s, %s\n%s\n%d rounds; median [min .. max]\n\n", r.Version, r.Kernel, r.CPU, r.Pinning, r.Rounds)
	fmt.Fprintf(t, "SipHash-2-4 of 16 bytes in BPF on this core: %s ns\n\n", r.Spreads["siphash24_ns"])
	if r.NsAboveReflect != nil {
		fmt.Fprintln(t, "SYN PATH, ns ABOVE REFLECT\tAS LINUX\tBARE\tAS macOS")
		for _, s := range config.Strategies() {
			fmt.Fprintf(t, "%s", s)
			for _, kind := range proxySYNKinds {
				fmt.Fprintf(t, "\t%s", r.Spreads["ns_above_reflect "+string(s)+kind.suffix])
			}
			fmt.Fprintln(t)
		}
	}
	if _, there := r.Spreads["bridge_ns"]; there {
		fmt.Fprintln(t, "\nSEGMENT OF A LIVE CONNECTION\tns ABOVE A PLAIN XDP BRIDGE")
		fmt.Fprintf(t, "translated (cookie)\t%s\n", r.Spreads["translate_ns"])
		fmt.Fprintf(t, "forwarded (auth)\t%s\n", r.Spreads["forward_ns"])
		fmt.Fprintf(t, "that bridge itself\t%s\n", r.Spreads["bridge_ns"])
	}
	r.printManyFlows(t)
	if r.GoodputGbps != nil {
		fmt.Fprintln(t, "\nGOODPUT\tGbit/s\tTRANSLATED IS TIMES THIS")
		fmt.Fprintf(t, "plain XDP router\t%s\t%s\n", r.Spreads["goodput_gbps plain"], r.Spreads["goodput_ratio"])
		fmt.Fprintf(t, "translated\t%s\t1\n", r.Spreads["goodput_gbps translated"])
	}
	if r.Flows != 0 {
		fmt.Fprintf(t, "\nFLOW TABLE\t\n%d flows\t%.1f MiB, %.0f bytes a flow\n", r.Flows, r.TableMiB, r.BytesPerFlow)
		fmt.Fprintf(t, "translated among them\t%s ns above a plain XDP bridge\n", r.Spreads["translate_ns_full"])
		fmt.Fprintf(t, "swap\tlongest wait of a packet %.3f ms (without a swap: %.3f); userspace spends %.1f ms\n",
			r.SwapStall, r.SwapBaseline, r.SwapTakes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, shape := range setupShapes {
		if s := *shape.of(r); s != nil {
			if err := s.print(w, shape.name); err != nil {
				return err
			}
		}
	}
	return nil
}
