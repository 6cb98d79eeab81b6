// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"tidegate/internal/bench/patrolbenchbpf"
	"tidegate/internal/ifp"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// CombinedStep is the name of a figure with that many prefixes and filters.
func CombinedStep(prefixes, filters int) string {
	return fmt.Sprintf("prefixes %d, filters %d", prefixes, filters)
}

// CombinedPrefixes and CombinedFilters are what is combined with at most that many filters.
func CombinedPrefixes() []int { return slices.Clone(benchPrefixes) }

// CombinedFilters: numbers of filters, ascending, none above `most`.
func CombinedFilters(most int) (list []int) {
	for _, n := range []int{0, 100_000, 1_000_000, 10_000_000} {
		if n <= most {
			list = append(list, n)
		}
	}
	return list
}

func (b *terminusBench) measureCombined() error {
	return b.forwarding(b.opt.MaxFilters, (*forwardBench).combined)
}

// combined measures every number of prefixes with every number of filters. Packets pass: their
// destinations have no filters, so each looks for one in vain; without prefixes they are dropped before.
func (f *forwardBench) combined(prog program, wire updatable) error {
	installed := 0
	for _, filters := range CombinedFilters(f.b.opt.MaxFilters) {
		if err := f.install(&installed, filters); err != nil {
			return err
		}
		for _, prefixes := range benchPrefixes {
			err := f.measure(prog, wire, CombinedStep(prefixes, filters), func() error { return f.allow(prefixes) }, prefixes == 0)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// install adds filters until there are n.
func (f *forwardBench) install(installed *int, n int) error {
	for ; *installed < n; *installed++ {
		filter := benchFilter(*installed)
		if code := f.filters.Table().Install(&filter, 0); code != ifp.OK {
			return fmt.Errorf("filter %d: %v", *installed, code)
		}
	}
	return nil
}

// TwoPaths are the frames that one processor forwards in a second, and that two do together, each with
// an incoming and an outgoing interface of its own.
type TwoPaths struct {
	Name    string  `json:"name"`
	OneWire float64 `json:"one_wire_per_s"` // a program that only sends on
	TwoWire float64 `json:"two_wire_per_s"`
	One     float64 `json:"one_patrol_per_s"`
	Two     float64 `json:"two_patrol_per_s"`
	Ratio   float64 `json:"two_over_one"` // of the patrol, median of the rounds
}

// pathsFilters are how many filters the last step of the paths has.
const pathsFilters = 1_000_000

// measurePaths forwards on two processors.
func (b *terminusBench) measurePaths() error {
	if runtime.NumCPU() < 2 {
		return errors.New("two paths need two processors")
	}
	filters := min(pathsFilters, b.opt.MaxFilters)
	return b.forwarding(filters, func(f *forwardBench, prog program, wire updatable) (err error) {
		second, err := f.secondPath()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, second.close()) }()
		installed := 0
		for _, step := range []struct {
			name              string
			prefixes, filters int
		}{{"prefixes 50", 50, 0}, {CombinedStep(20, filters), 20, filters}} {
			if err := errors.Join(f.install(&installed, step.filters), f.allow(step.prefixes), second.traffic(step.prefixes)); err != nil {
				return err
			}
			row, err := f.twoPaths(prog, wire, second)
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			row.Name = step.name
			b.res.Paths = append(b.res.Paths, *row)
			b.opt.Progress("  %s: %.2f million/s on one processor, %.2f on two", step.name, row.One/1e6, row.Two/1e6)
		}
		return nil
	})
}

// benchPath is a second generator, two more interfaces of the same patrol, and a second sink.
type benchPath struct {
	box     *rig.ProxyTopology
	objs    patrolbenchbpf.PatrolBenchObjects
	gen     *load.Generator
	wire    updatable
	closers []func() error
}

func (f *forwardBench) secondPath() (p *benchPath, err error) {
	p = &benchPath{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.box, err = rig.NewProxyTopology("b", false); err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.box.Close)
	if err := patrolbenchbpf.LoadPatrolBenchObjects(&p.objs, nil); err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.objs.Close)
	cpu := 1 - f.rig.FloodCPU()&1
	if p.gen, err = load.NewGenerator(p.box.AttackerPort, p.objs.TgPatrolGenerate, cpu, forwardFrameLen); err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.gen.Close)
	sink, err := p.box.ServerPort.ReplaceXDP(p.objs.TgPatrolSink)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, sink.Close)
	wire, err := p.box.FloodPort.AttachXDP(p.objs.TgPatrolWire)
	if err != nil {
		return p, err
	}
	p.wire = wire
	p.closers = append(p.closers, wire.Close)
	// The patrol knows ports by index, and the two boxes are two namespaces: the same index must mean the same.
	in, out := p.box.FloodPort.Index, p.box.InnerPort.Index
	if in == f.box.FloodPort.Index && out != f.box.InnerPort.Index {
		return p, fmt.Errorf("port %d has peer %d in one namespace and %d in the other", in, f.box.InnerPort.Index, out)
	}
	return p, errors.Join(
		p.objs.GenMacDst.Set([6]byte(p.box.FloodPort.MAC)), p.objs.GenMacSrc.Set([6]byte(p.box.AttackerPort.MAC)),
		p.objs.WirePeer.Set(uint32(out)), p.objs.GenState.Set(uint64(2)),
		f.plane.SetPort(in, plane.PatrolPort{Peer: uint32(out)}))
}

func (p *benchPath) close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

// traffic is that of forwardBench.allow.
func (p *benchPath) traffic(sources int) error {
	return errors.Join(p.objs.GenSources.Set(uint32(sources)), p.objs.GenFirstDst.Set(uint32(500)), p.objs.GenDsts.Set(uint32(100)), p.objs.GenAnyHost.Set(uint32(1)))
}

// perSecond runs the path's generator; all its frames must reach the sink.
func (p *benchPath) perSecond(frames int) (float64, error) {
	var before, after uint64
	if err := p.objs.SinkFrames.Get(&before); err != nil {
		return 0, err
	}
	took, err := p.gen.Run(frames)
	if err = errors.Join(err, p.objs.SinkFrames.Get(&after)); err != nil {
		return 0, err
	}
	if came := after - before; came < uint64(frames)*95/100 {
		return 0, fmt.Errorf("second path: %d frames sent, %d passed", frames, came)
	}
	return float64(frames) / took.Seconds(), nil
}

// twoPaths measures wire and patrol in turn, each on one path and on both at once.
func (f *forwardBench) twoPaths(prog program, wire updatable, second *benchPath) (*TwoPaths, error) {
	var lists [4][]float64
	var ratios []float64
	for range f.b.opt.Rounds + 1 {
		var now [4]float64
		for i, p := range []program{f.objs.TgPatrolWire, prog} {
			of := second.objs.TgPatrolWire
			if i == 1 {
				of = prog
			}
			if err := errors.Join(wire.Update(p), second.wire.Update(of)); err != nil {
				return nil, err
			}
			one, err := f.ns(f.b.opt.Frames, false)
			if err != nil {
				return nil, err
			}
			two, err := f.both(second)
			if err != nil {
				return nil, err
			}
			now[2*i], now[2*i+1] = 1e9/one, two
		}
		for i, v := range now {
			lists[i] = append(lists[i], v)
		}
		ratios = append(ratios, now[3]/now[2])
	}
	median := func(list []float64) float64 { return spread(list[1:]).Median } // the first warms up
	return &TwoPaths{OneWire: median(lists[0]), TwoWire: median(lists[1]), One: median(lists[2]), Two: median(lists[3]), Ratio: median(ratios)}, nil
}

// both runs both generators at once and adds up their rates.
func (f *forwardBench) both(second *benchPath) (float64, error) {
	var other float64
	var otherErr error
	var done sync.WaitGroup
	done.Go(func() { other, otherErr = second.perSecond(f.b.opt.Frames) })
	ns, err := f.ns(f.b.opt.Frames, false)
	done.Wait()
	if err := errors.Join(err, otherErr); err != nil {
		return 0, err
	}
	return 1e9/ns + other, nil
}

// printCombined writes the figures by prefixes and filters, and those of two paths.
func (r *TerminusResult) printCombined(t io.Writer) {
	filters := CombinedFilters(1 << 30)
	if _, there := r.ForwardNs[CombinedStep(1, 0)]; there {
		fmt.Fprint(t, "\nSHARE OF A WIRE'S RATE, FILTERS")
		for _, n := range filters {
			fmt.Fprintf(t, "\t%d", n)
		}
		for _, p := range benchPrefixes {
			fmt.Fprintf(t, "\nallowed prefixes: %d", p)
			for _, n := range filters {
				text := "-"
				if ns := r.ForwardNs[CombinedStep(p, n)]; ns > 0 {
					text = fmt.Sprintf("%.0f %%", 100*r.WireNs[CombinedStep(p, n)]/ns)
				}
				fmt.Fprintf(t, "\t%s", text)
			}
		}
		fmt.Fprintln(t)
	}
	for i, p := range r.Paths {
		if i == 0 {
			fmt.Fprintln(t, "\nTWO PATHS\tONE PROCESSOR, M/s\tTWO\tTWO / ONE\tWIRE: ONE\tTWO")
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", p.Name, p.One/1e6, p.Two/1e6, p.Ratio, p.OneWire/1e6, p.TwoWire/1e6)
	}
}
