// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"tidegate/internal/fleet"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Options of a fleet under a carpet of SYNs.
type Options struct {
	Gates    int
	Servers  int           // NATS servers, 1 or 3
	Routers  int           // that speak BGP with the first two gates
	Rate     load.Rate     // of the flood, all gates together
	Every    time.Duration // between two requests to a gate
	Timeout  time.Duration // of a request
	Calm     time.Duration // of the gates' detectors; production has 30 s
	Patience time.Duration // how long nodes have to know something
	Tidegate string        // the program; empty: the one that FindTidegate finds
	Progress func(string, ...any)
}

// DefaultOptions are those of the command.
func DefaultOptions() Options {
	return Options{Gates: 20, Servers: 3, Routers: 2, Rate: 20_000, Every: 200 * time.Millisecond, Timeout: 5 * time.Second, Calm: 5 * time.Second, Patience: time.Minute,
		Progress: func(string, ...any) {}}
}

// Bounds of the options: each gate takes a namespace, a process of some 100 MiB, and a part of the flood.
const (
	maxGates = 40
	maxRate  = 200_000
)

// Validate checks the options; an error names the option, its value, and valid values.
func (o *Options) Validate() error {
	switch {
	case o.Gates < 2 || o.Gates > maxGates:
		return fmt.Errorf("--gates %d: want 2 to %d", o.Gates, maxGates)
	case o.Servers != 1 && o.Servers != 3:
		return fmt.Errorf("--servers %d: want 1 or 3; of two, the death of one leaves no majority", o.Servers)
	case o.Routers < 0 || o.Routers > 4:
		return fmt.Errorf("--routers %d: want 0 to 4", o.Routers)
	case o.Rate < 1000 || o.Rate > maxRate:
		return fmt.Errorf("--rate %s: want 1000 to %d SYNs a second, all gates together", o.Rate, maxRate)
	}
	return nil
}

// gate is one `tidegate run`.
type gate struct {
	*host
	name string
	conf string
	proc *rig.Process
}

type lab struct {
	o       Options
	w       *rig.Workplace
	net     *network
	gates   []*gate
	nats    *cluster
	op      *fleet.Operator
	exe     string
	clients *clients
	began   time.Time
	res     *Result

	mu      sync.Mutex
	routers []*rig.Process
	learned [][]learned // of each router
	httpd   []*rig.Process
}

// Run builds everything, lets the events happen, and removes everything.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	x := &lab{o: o, exe: o.Tidegate, res: &Result{Gates: o.Gates, Servers: o.Servers, Routers: o.Routers, Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), Cores: runtime.NumCPU()}}
	if x.exe == "" {
		if x.exe, err = rig.FindTidegate(); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(x.exe), "tidegate-bgp")); err != nil && o.Routers > 0 {
		return nil, fmt.Errorf("no tidegate-bgp beside %s: build it with `make build`, or use --routers 0", x.exe)
	}
	if x.w, err = rig.NewWorkplace(x.exe, o.Progress); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.w.Close()) }()
	if x.net, err = newNetwork(x.w.Owner); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.net.close()) }()
	defer x.stop()
	if err := x.build(ctx); err != nil {
		return nil, err
	}
	if err := x.happen(ctx); err != nil {
		return nil, err
	}
	return x.res, nil
}

// stop ends every process, gates first: they take their packet paths down.
func (x *lab) stop() {
	if x.clients != nil {
		x.clients.end()
	}
	if x.op != nil {
		x.op.Close()
	}
	var wg sync.WaitGroup
	for _, g := range x.gates {
		wg.Go(func() {
			if g.proc != nil {
				g.proc.End(syscall.SIGINT, 10*time.Second)
			}
			for _, mount := range rig.BpfMounts() {
				_ = os.RemoveAll(filepath.Join(mount, "tidegate", g.instance))
			}
			files, _ := filepath.Glob(filepath.Join(rig.RunDir, g.instance+"*"))
			for _, f := range files {
				_ = os.RemoveAll(f)
			}
		})
	}
	wg.Wait()
	for _, p := range append(x.routers, x.httpd...) {
		p.Stop(time.Second)
	}
	if x.nats != nil {
		x.nats.close()
	}
}
