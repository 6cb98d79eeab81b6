// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/bench/patrolbenchbpf"
	"tidegate/internal/ifp"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
	"tidegate/internal/role/patrol"
)

// Forwarding through a patrol: generator --- patrol --- sink, minimum-size packets
// with different addresses each time.

const (
	forwardFrameLen = 60
	benchSources    = 100_000
	benchDsts       = 100 // benchSources * benchDsts filters at most
)

// forwardBench is a patrol between two veths.
type forwardBench struct {
	b        *terminusBench
	box      *rig.ProxyTopology
	rig      *trial.Stand
	objs     patrolbenchbpf.PatrolBenchObjects
	gen      *load.Generator
	capacity int
	plane    *plane.Patrol
	filters  *patrol.Filters
}

// source is generator's spread() of bpf/patrol_bench.bpf.c: the /24 number i.
func source(i int) netip.Addr {
	v := uint32(i) * 0x9e3779b1
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), 0})
}

func benchFilter(i int) ifp.Filter {
	s := source(i % benchSources).As4()
	s[3] = 1
	j := i / benchSources
	return ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4(s), 32),
		Dst:    netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(j >> 8), byte(j)}), 32),
		Action: ifp.Block}
}

func (b *terminusBench) newForward(capacity int) (f *forwardBench, err error) {
	f = &forwardBench{b: b, capacity: capacity}
	labOptions := trial.DefaultOptions()
	labOptions.Exe, labOptions.Progress = b.opt.Exe, b.opt.Progress
	if f.rig, f.box, err = trial.NewProxyStand(labOptions); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if err := patrolbenchbpf.LoadPatrolBenchObjects(&f.objs, nil); err != nil {
		return f, err
	}
	if f.gen, err = load.NewGenerator(f.box.AttackerPort, f.objs.TgPatrolGenerate, f.rig.FloodCPU(), forwardFrameLen); err != nil {
		return f, err
	}
	if f.plane, err = plane.LoadPatrol(plane.PatrolOptions{Buckets: patrol.BucketsFor(capacity), Codepoint: 47}); err != nil {
		return f, err
	}
	if f.filters, err = patrol.NewFilters(f.plane, 47, 0); err != nil {
		return f, err
	}
	err = errors.Join(
		f.objs.GenMacDst.Set([6]byte(f.box.FloodPort.MAC)), f.objs.GenMacSrc.Set([6]byte(f.box.AttackerPort.MAC)),
		f.objs.WirePeer.Set(uint32(f.box.InnerPort.Index)),
		f.plane.SetPort(f.box.FloodPort.Index, plane.PatrolPort{Peer: uint32(f.box.InnerPort.Index)}))
	return f, err
}

func (f *forwardBench) close() error {
	var errs []error
	if f.gen != nil {
		errs = append(errs, f.gen.Close())
	}
	if f.plane != nil {
		f.plane.Close()
	}
	errs = append(errs, f.objs.Close(), f.rig.Close())
	return errors.Join(errs...)
}

// traffic chooses what the generator sends.
func (f *forwardBench) traffic(sources, firstDst, dsts int, anyHost bool) error {
	host := uint32(0)
	if anyHost {
		host = 1
	}
	return errors.Join(f.objs.GenSources.Set(uint32(sources)), f.objs.GenFirstDst.Set(uint32(firstDst)),
		f.objs.GenDsts.Set(uint32(dsts)), f.objs.GenAnyHost.Set(host))
}

// ns returns the time of a frame from generator to sink, all included. With dropped,
// at most 1 % of the frames may reach the sink; otherwise at least 95 % must.
func (f *forwardBench) ns(frames int, dropped bool) (float64, error) {
	var before, after uint64
	if err := f.objs.SinkFrames.Get(&before); err != nil {
		return 0, err
	}
	took, err := f.gen.Run(frames)
	if err != nil {
		return 0, err
	}
	if err := f.objs.SinkFrames.Get(&after); err != nil {
		return 0, err
	}
	came := after - before
	if dropped && came > uint64(frames/100) || !dropped && came < uint64(frames)*95/100 {
		return 0, fmt.Errorf("%d frames sent, %d passed (to be dropped: %v)", frames, came, dropped)
	}
	return float64(took.Nanoseconds()) / float64(frames), nil
}

// forwarding runs what measures a patrol's forwarding, between wires.
func (b *terminusBench) forwarding(capacity int, run func(f *forwardBench, prog program, wire updatable) error) (err error) {
	f, err := b.newForward(capacity)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	sink, err := f.box.ServerPort.ReplaceXDP(f.objs.TgPatrolSink)
	if err != nil {
		return err
	}
	defer sink.Close()
	wire, err := f.box.FloodPort.AttachXDP(f.objs.TgPatrolWire)
	if err != nil {
		return err
	}
	defer wire.Close()
	prog, _ := f.plane.Programs()
	return run(f, prog, wire)
}

func (b *terminusBench) measurePrefixes() error { return b.forwarding(1000, (*forwardBench).prefixes) }

func (b *terminusBench) measureForwarding() error {
	return b.forwarding(b.opt.MaxFilters, (*forwardBench).byFilters)
}

// benchPrefixes are how many prefixes are allowed, in turn.
var benchPrefixes = []int{0, 1, 20, 50, 150, benchSources}

// allow allows n prefixes and has the generator send from them; with none, from all, which are all dropped.
func (f *forwardBench) allow(n int) error {
	list := make([]netip.Prefix, 0, n)
	for i := range n {
		list = append(list, netip.PrefixFrom(source(i), 24))
	}
	if n == 0 {
		n = benchSources
	}
	return errors.Join(f.filters.SetSources(list), f.traffic(n, 500, 100, true))
}

func (f *forwardBench) prefixes(prog program, wire updatable) error {
	for _, n := range benchPrefixes {
		if err := f.measure(prog, wire, fmt.Sprintf("prefixes %d", n), func() error { return f.allow(n) }, n == 0); err != nil {
			return err
		}
	}
	return nil
}

func (f *forwardBench) byFilters(prog program, wire updatable) error {
	b := f.b
	if err := f.filters.SetSources([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}); err != nil {
		return err
	}
	installed := 0
	for _, n := range []int{0, 1, 100_000, b.opt.MaxFilters} {
		n = min(n, b.opt.MaxFilters)
		begin := time.Now()
		if err := f.install(&installed, n); err != nil {
			return err
		}
		if n == b.opt.MaxFilters && n > 0 {
			b.res.TableInstallsPerS = float64(n-100_000) / time.Since(begin).Seconds()
		}
		name := fmt.Sprintf("filters %d", n)
		if err := f.measure(prog, wire, name+", passing", func() error { return f.traffic(benchSources, 500, 100, false) }, false); err != nil {
			return err
		}
		if n == b.opt.MaxFilters {
			if err := f.measure(prog, wire, name+", dropped", func() error { return f.traffic(benchSources, 0, n/benchSources, false) }, true); err != nil {
				return err
			}
		}
	}
	b.res.FilterBytes = float64(patrol.BucketsFor(b.opt.MaxFilters)*17*64) / float64(b.opt.MaxFilters)
	b.res.FilterMiB = float64(patrol.BucketsFor(b.opt.MaxFilters)*17*64) / (1 << 20)
	return f.measureBoth(prog, wire)
}

// measure takes the medians of the program and of the wire in its place, in turn: the
// machine's speed changes between one step and the next.
func (f *forwardBench) measure(prog program, l updatable, name string, prepare func() error, dropped bool) error {
	if err := errors.Join(f.b.ctx.Err(), prepare()); err != nil {
		return err
	}
	var with, wire, net []float64
	for range f.b.opt.Rounds + 1 {
		var ns [2]float64
		for i, p := range []program{f.objs.TgPatrolWire, prog} {
			if err := l.Update(p); err != nil {
				return err
			}
			v, err := f.ns(f.b.opt.Frames, dropped && i == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			ns[i] = v
		}
		wire, with, net = append(wire, ns[0]), append(with, ns[1]), append(net, ns[1]-ns[0])
	}
	median := func(list []float64) float64 {
		list = slices.Clone(list[1:]) // the first warms up
		slices.Sort(list)
		return list[len(list)/2]
	}
	f.b.res.ForwardNs[name], f.b.res.WireNs[name], f.b.res.NetNs[name] = median(with), median(wire), median(net)
	f.b.opt.Progress("  %s: %.0f ns a frame, a wire %.0f", name, median(with), median(wire))
	return nil
}

// measureBoth forwards while the other CPU installs filters at full speed, and, for a
// yardstick, while it merely counts: two CPUs of one core share more than memory.
func (f *forwardBench) measureBoth(prog program, l updatable) error {
	if err := errors.Join(l.Update(prog), f.traffic(benchSources, 500, 100, false)); err != nil {
		return err
	}
	installs, batch, codes := 0, make([]ifp.Filter, 100), make([]ifp.Code, 100)
	kinds := []struct {
		to  *float64
		one func(i int)
	}{
		{&f.b.res.BothAloneNs, nil},
		{&f.b.res.BothSpinNs, func(int) {
			spun := 0
			for k := range 10_000 {
				spun += k
			}
			runtime.KeepAlive(spun)
		}},
		{&f.b.res.BothNs, func(i int) {
			for k := range batch {
				batch[k] = benchFilter((i*len(batch) + k) % f.b.opt.MaxFilters)
				batch[k].ExpiresS = 3600
			}
			f.filters.Table().InstallAll(batch, codes, 1)
			installs += len(batch)
		}},
	}
	lists := make([][]float64, len(kinds))
	var spent time.Duration
	for range f.b.opt.Rounds + 1 { // in turn: the machine's speed changes
		for i, k := range kinds {
			begin := time.Now()
			v, err := f.beside(k.one)
			if err != nil {
				return err
			}
			if i == 2 {
				spent += time.Since(begin)
			}
			lists[i] = append(lists[i], v)
		}
	}
	for i, k := range kinds {
		slices.Sort(lists[i])
		*k.to = lists[i][len(lists[i])/2]
	}
	f.b.res.BothInstallsPerS = float64(installs) / spent.Seconds()
	return nil
}

// beside measures while one runs repeatedly on the other CPU; nil: the other CPU is idle.
func (f *forwardBench) beside(one func(i int)) (ns float64, err error) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	if one != nil {
		done.Go(func() {
			runtime.LockOSThread() // ends with its thread, and its affinity
			var set unix.CPUSet
			set.Set(1 - f.rig.FloodCPU()&1)
			_ = unix.SchedSetaffinity(0, &set)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					one(i)
				}
			}
		})
	}
	ns, err = f.ns(f.b.opt.Frames, false)
	close(stop)
	done.Wait()
	return ns, err
}
