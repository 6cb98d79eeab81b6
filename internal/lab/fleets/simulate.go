// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/fleet"
	"tidegate/internal/lab/rig"
)

// SimulateOptions say how many nodes report, and for how long.
type SimulateOptions struct {
	Nodes int
	// Connections is over how many connections the nodes' reports come; 0: each node has its own, with a certificate and an account, and is the code that runs in a gate.
	Connections int
	Ramp        float64       // nodes a second that join
	Steady      time.Duration // how long reports alone are measured
	Timeout     time.Duration // of each phase
	Self        string        // this program; empty: the running one
	Progress    func(string, ...any)
}

// DefaultSimulateOptions are those of the command.
func DefaultSimulateOptions() SimulateOptions {
	return SimulateOptions{Nodes: 10_000, Ramp: 250, Steady: 30 * time.Second, Timeout: 5 * time.Minute, Progress: func(string, ...any) {}}
}

type simulation struct {
	o     SimulateOptions
	c     *cluster
	op    *fleet.Operator
	gates []*simGate
	said  *complaints
	res   *Simulation
}

// Simulate runs the nodes and the servers on the loopback interface of this machine.
func Simulate(ctx context.Context, o SimulateOptions) (_ *Simulation, err error) {
	if o.Self == "" {
		if o.Self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if err := allowFiles(o.Nodes); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidegate-lab-fleet-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	names := make([]string, o.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("sim%05d", i)
	}
	places, err := loopback(3)
	if err != nil {
		return nil, err
	}
	o.Progress("certificates and accounts of %d nodes", o.Nodes)
	users := names
	if o.Connections > 0 {
		users = nil
	}
	c, err := newCluster(o.Self, dir, places, users)
	if err != nil {
		return nil, err
	}
	defer c.close()
	x := &simulation{o: o, c: c, said: &complaints{kinds: map[string]int{}}, res: &Simulation{Nodes: o.Nodes, Connections: o.Connections, Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), Cores: runtime.NumCPU()}}
	began := time.Now()
	for i := range places {
		if err := c.start(i); err != nil {
			return nil, err
		}
	}
	if x.op, err = c.operator(ctx, o.Timeout); err != nil {
		return nil, err
	}
	defer x.op.Close()
	x.res.Loading = time.Since(began).Seconds()
	o.Progress("three servers are ready after %.1f s", x.res.Loading)
	return x.res, x.run(ctx, names)
}

// allowFiles has this process and its children open as many files as that takes: a connection is one, and while it is made, the files of its
// certificate. Where the limit cannot be raised, a connection of each node has to fit.
func allowFiles(nodes int) error {
	var have unix.Rlimit
	want := uint64(4*nodes + 1000)
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &have); err != nil || have.Max >= want {
		return err
	}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: want})
	if err == nil || have.Max >= uint64(nodes+1000) {
		return nil
	}
	return fmt.Errorf("%d nodes need %d open files, and %d are allowed: raise the limit (ulimit -Hn): %w", nodes, nodes+1000, have.Max, err)
}

// operator connects an operator and creates the buckets, once the servers have found each other.
func (c *cluster) operator(ctx context.Context, patience time.Duration) (*fleet.Operator, error) {
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if err := c.alive(); err != nil {
			return nil, err
		}
		o, err := fleet.Connect(c.access("operator", len(c.places)-1))
		if err == nil {
			short, stop := context.WithTimeout(ctx, 10*time.Second)
			err = o.Init(short, min(3, len(c.places)))
			stop()
			if err == nil {
				return o, nil
			}
			o.Close()
		}
		last = err
	}
	return nil, errors.Join(ctx.Err(), fmt.Errorf("the NATS servers are not ready in time: %w", last))
}

// loopback are places on this machine.
func loopback(n int) (list []place, err error) {
	for range n {
		var ports [3]int
		for i := range ports {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close()
			ports[i] = l.Addr().(*net.TCPAddr).Port
		}
		list = append(list, place{addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), client: ports[0], cluster: ports[1], monitor: ports[2]})
	}
	return list, nil
}

func (x *simulation) run(ctx context.Context, names []string) error {
	ctx, cancel := context.WithCancel(ctx)
	var members sync.WaitGroup
	defer func() { cancel(); members.Wait() }()
	log := slog.New(x.said)
	join := x.join
	if x.o.Connections > 0 {
		join = x.speak
	}
	if err := join(ctx, names, &members, log); err != nil {
		return err
	}
	if err := x.phase(ctx, "reports alone", func() error { return pause(ctx, x.o.Steady) }); err != nil {
		return err
	}
	if err := x.phase(ctx, "a new revision", func() (err error) {
		x.res.Revision, err = x.revise(ctx, config.ModeAlways)
		return err
	}); err != nil {
		return err
	}
	if err := x.phase(ctx, "one server is killed, then a new revision", func() (err error) {
		x.c.kill(0)
		x.res.OneDead, err = x.revise(ctx, config.ModeMonitor)
		return err
	}); err != nil {
		return err
	}
	if err := x.phase(ctx, "reports alone, with two servers", func() error { return pause(ctx, x.o.Steady) }); err != nil {
		return err
	}
	var err error
	x.res.Own, _, err = usage(os.Getpid())
	for text, n := range x.said.kinds {
		x.res.Said = append(x.res.Said, fmt.Sprintf("%d times: %s", n, text))
	}
	slices.Sort(x.res.Said)
	return err
}

// join has each node connect, follow and report.
func (x *simulation) join(ctx context.Context, names []string, members *sync.WaitGroup, log *slog.Logger) error {
	return x.phase(ctx, fmt.Sprintf("%d nodes join, %.0f a second", x.o.Nodes, x.o.Ramp), func() error {
		tick := time.NewTicker(time.Duration(float64(time.Second) / x.o.Ramp))
		defer tick.Stop()
		for i, name := range names {
			g := &simGate{}
			x.gates = append(x.gates, g)
			m := fleet.NewMember(x.c.access(name, i), name, g, log)
			members.Go(func() { m.Run(ctx) })
			if i%1000 == 999 {
				x.o.Progress("%d nodes have begun to join; %d complaints so far", i+1, x.said.so())
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
		return x.reported(ctx)
	})
}

// reported waits until every node has.
func (x *simulation) reported(ctx context.Context) error {
	return x.await(ctx, "every node has reported", func(list []fleet.Node) bool {
		x.o.Progress("%d of %d nodes have reported; %d complaints so far", len(list), x.o.Nodes, x.said.so())
		return len(list) == x.o.Nodes
	})
}

// speak has all nodes report over a few connections.
func (x *simulation) speak(ctx context.Context, names []string, members *sync.WaitGroup, log *slog.Logger) error {
	for range names {
		x.gates = append(x.gates, &simGate{})
	}
	if _, err := apply(ctx, x.op, fleet.Desired{}, x.o.Timeout); err != nil { // what they ask for
		return err
	}
	return x.phase(ctx, fmt.Sprintf("%d nodes begin to report, over %d connections", x.o.Nodes, x.o.Connections), func() error {
		s, err := x.startSpeakers(ctx, names, log)
		members.Go(func() {
			<-ctx.Done()
			s.close()
		})
		if err != nil {
			return err
		}
		return x.reported(ctx)
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// nodes are the reports, as an operator sees them.
func (x *simulation) nodes(ctx context.Context) ([]fleet.Node, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return x.op.Nodes(ctx)
}

func (x *simulation) await(ctx context.Context, what string, reached func([]fleet.Node) bool) error {
	var list []fleet.Node
	var err error
	for end := time.Now().Add(x.o.Timeout); time.Now().Before(end); {
		if list, err = x.nodes(ctx); err == nil && reached(list) {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("%s: not within %v; %d reports are there", what, x.o.Timeout, len(list)), err, x.c.alive())
}

// revise gives a revision, and says when nodes had it. Not every node has to have it in time.
func (x *simulation) revise(ctx context.Context, m config.Mode) (Spread, error) {
	began := time.Now()
	n, err := apply(ctx, x.op, fleet.Desired{Modes: map[string]config.Mode{"web": m}}, x.o.Timeout)
	if err != nil {
		return Spread{}, err
	}
	var after []time.Duration
	for end := time.Now().Add(x.o.Timeout); time.Now().Before(end); {
		after = after[:0]
		for _, g := range x.gates {
			g.mu.Lock()
			if g.revision == n {
				after = append(after, g.at.Sub(began))
			}
			g.mu.Unlock()
		}
		if len(after) == len(x.gates) {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return Spread{}, err
		}
	}
	s := spread(len(x.gates), after)
	x.o.Progress("revision %d: %v", n, s)
	return s, nil
}

// apply gives a revision; while the servers have no leader, again.
func apply(ctx context.Context, op *fleet.Operator, d fleet.Desired, patience time.Duration) (n uint64, err error) {
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; {
		short, stop := context.WithTimeout(ctx, 2*time.Second)
		now, e := op.Current(short)
		if e == nil {
			n, e = op.Apply(short, fleet.Revision{Desired: d, By: "the lab"}, now.Number)
		}
		stop()
		if err = e; err == nil {
			return n, nil
		}
	}
	return 0, errors.Join(ctx.Err(), err)
}

// phase measures a part.
func (x *simulation) phase(ctx context.Context, name string, do func() error) error {
	read := func() (list []figures, err error) {
		for i := range x.c.places {
			f, err := x.c.figures(ctx, i)
			if err != nil {
				return nil, err
			}
			list = append(list, f)
		}
		return list, nil
	}
	x.o.Progress("%s", name)
	before, err := read()
	if err != nil {
		return err
	}
	_, cpu, err := usage(os.Getpid())
	if err != nil {
		return err
	}
	began, complained := time.Now(), x.said.so()
	doErr := do()
	took := time.Since(began).Seconds()
	_, cpuThen, err := usage(os.Getpid())
	if err != nil {
		return err
	}
	after, err := read()
	if err != nil {
		return errors.Join(doErr, err)
	}
	p := Phase{Name: name, Seconds: took, Own: (cpuThen - cpu).Seconds() / took, Errors: x.said.so() - complained}
	for i, f := range after {
		s := Server{Memory: f.Memory, Clients: f.Connections, Slow: f.Slow}
		if x.c.up[i] != nil {
			s.Messages, s.CPU = float64(f.In+f.Out-before[i].In-before[i].Out)/took, (f.CPU-before[i].CPU).Seconds()/took
		}
		p.Servers = append(p.Servers, s)
	}
	if list, err := x.nodes(ctx); err == nil {
		fresh := 0
		for _, n := range list {
			if n.Late {
				p.Late++
			}
			if n.Received.After(began) {
				fresh++
			}
		}
		p.Reports = float64(fresh) / min(took, fleet.ReportEvery.Seconds())
	} else {
		doErr = errors.Join(doErr, fmt.Errorf("`fleet status` gets no answer: %w", err))
	}
	x.res.Phases = append(x.res.Phases, p)
	return doErr
}
