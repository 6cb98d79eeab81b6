// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

// Options of one experiment: edges and a server under one attack.
type Options struct {
	trial.Options
	Edges       int
	Plane       string  // of the edge: xdp or p4
	Mode        string  // plain or tagged
	Takeover    string  // of the server: adopt, translate or auto
	Layout      string  // of cookies: tidegate or smartcookie
	Attack      string  // syn, ack, rst or mixed
	DropSetup   float64 // share of the clients' bare ACKs dropped before the server
	RouteFlap   bool    // all packets change edge every FlapEvery
	Skew        time.Duration
	Direct      bool   // answers bypass the edges
	UnknownRate string // of each edge
	FilterBits  int
	Sync        bool // edges share what their filters learn
	FilterFlows int  // random flows put into each edge's filter before the attack
	Epoch       time.Duration
	ClockSkew   time.Duration
	DropAttack  bool   // before the server sees it: measures the cost of delivery
	Congestion  string // the server's congestion control; empty: the system's
}

// FlapEvery is how long a route lasts with RouteFlap.
const FlapEvery = 250 * time.Millisecond

// Attacks of `tidegate-lab split`.
const (
	AttackSYN   = "syn"
	AttackACK   = "ack"
	AttackRST   = "rst"
	AttackMixed = "mixed" // SYN, SYN-ACK, ACK, RST and FIN-ACK in turn
)

const (
	modeTagged        = "tagged"
	takeoverTranslate = "translate"
	takeoverAuto      = "auto"

	layoutTidegate    = "tidegate"
	layoutSmartcookie = "smartcookie"
)

// What a build supports; a new protocol or takeover is added here and
// in startNodes.
var (
	modes     = []string{"plain", modeTagged}
	takeovers = []string{"adopt", takeoverTranslate, takeoverAuto}
	layouts   = []string{layoutTidegate, layoutSmartcookie}
	planes    = []string{planeXDP, planeP4}
	attacks   = []string{AttackSYN, AttackACK, AttackRST, AttackMixed}
)

// DefaultOptions are those of `tidegate-lab split` without flags.
func DefaultOptions() Options {
	o := Options{Options: trial.DefaultOptions(), Edges: 1, Plane: planeXDP, Mode: "plain", Takeover: "adopt", Attack: AttackSYN, Layout: layoutTidegate,
		UnknownRate: "10000", FilterBits: 20, Epoch: 8 * time.Second, ClockSkew: -1}
	o.Defence = "split"
	o.ResponseSize = 14500 // SmartCookie, section 8.3
	return o
}

// Validate checks all options; an error names the option, its value, and valid values.
func (o *Options) Validate() error {
	general := o.Options
	general.Defence = defences.None
	if err := general.Validate(); err != nil {
		return err
	}
	for _, c := range []struct {
		flag, value string
		have        []string
	}{
		{"--plane", o.Plane, planes},
		{"--mode", o.Mode, modes},
		{"--server", o.Takeover, takeovers},
		{"--attack", o.Attack, attacks},
		{"--layout", o.Layout, layouts},
	} {
		if !slices.Contains(c.have, c.value) {
			return fmt.Errorf("%s %q: want one of %s", c.flag, c.value, strings.Join(c.have, ", "))
		}
	}
	switch {
	case o.Mode == modeTagged && o.Takeover == "adopt":
		return errors.New("--mode tagged: needs --server translate; an adopting server needs no tags")
	case o.Mode == modeTagged && o.Layout != layoutTidegate:
		return errors.New("--layout smartcookie: needs --mode plain; tagged edges use the layout tidegate")
	case o.Sync && o.Mode != modeTagged:
		return errors.New("--sync: needs --mode tagged; with plain any edge may carry any packet")
	case o.Edges < 1 || o.Edges > rig.MaxEdges:
		return fmt.Errorf("--edges %d: want 1 to %d", o.Edges, rig.MaxEdges)
	case o.Plane == planeP4 && o.Sync:
		return errors.New("--sync: edges in P4 do not synchronise; omit it")
	case o.Plane == planeP4 && (o.Edges != 1 || o.FilterFlows != 0 || o.FilterBits != 20):
		return errors.New("--plane p4 has one edge with a compiled-in filter size; omit --edges, --filter-bits and --filter-flows")
	case o.DropSetup < 0 || o.DropSetup > 0.9:
		return fmt.Errorf("--drop-setup %g: want 0 to 0.9", o.DropSetup)
	case o.RouteFlap && o.Edges < 2:
		return errors.New("--route-flap: needs --edges 2 or more, to flap between")
	case o.Direct && o.Edges < 2:
		return errors.New("--return direct: needs --edges 2 or more; with one edge there is no other path")
	case o.Skew.Abs() > time.Minute:
		return fmt.Errorf("--skew %s: want -1m to 1m", o.Skew)
	case o.FilterFlows < 0 || o.FilterFlows > 1<<26:
		return fmt.Errorf("--filter-flows %d: want 0 to %d", o.FilterFlows, 1<<26)
	}
	return nil
}

// Run makes a topology, runs one experiment in it, and always removes it
// again.
func Run(ctx context.Context, opts Options) (res *Result, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	env, err := trial.NewEnv(opts.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	s, err := rig.NewSplitTopology("", opts.Edges, opts.Direct)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if opts.Congestion, err = s.Server.CongestionControl(opts.Congestion); err != nil {
		return nil, err
	}
	x := &run{env: env, opts: opts, s: s}
	defer func() { err = errors.Join(err, x.stopNodes()) }()
	return x.experiment(ctx)
}

// run is one experiment.
type run struct {
	env   *trial.Env
	opts  Options
	s     *rig.SplitTopology
	nodes []*node
	srv   *rig.Process
}

// experiment runs the phases: serve, measure the baseline, defend, attack and load, count.
func (x *run) experiment(ctx context.Context) (_ *Result, err error) {
	o, env := x.opts, x.env
	if err := x.s.AddClients(o.Clients, o.IPv6); err != nil {
		return nil, err
	}
	if err := x.s.Server.SetSysctls([2]string{"net.ipv4.tcp_syncookies", "1"}); err != nil {
		return nil, err
	}
	floods, err := x.newFloods()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floods.Close()) }()
	own, err := x.calibrate(ctx, floods)
	if err != nil {
		return nil, err
	}
	if x.srv, err = load.StartServer(ctx, x.s.Topology, env.Server, env.Dir, env.Self, env.Pin.Server, o.ResponseSize, o.Backlog); err != nil {
		return nil, err
	}
	defer x.srv.Stop(time.Second)
	env.Progress("split: without attack and without tidegate")
	before, err := x.load(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("without tidegate: %w", err)
	}
	env.Progress("split: the same with an empty XDP program on the edges' ports")
	empty, err := x.loadOverEmpty(ctx)
	if err != nil {
		return nil, fmt.Errorf("with an empty XDP program: %w", err)
	}
	if err := x.startNodes(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(x.s.DropAttack(o.DropAttack), x.s.LoseACKs(o.DropSetup)); err != nil {
		return nil, err
	}
	env.Progress("split: %d edges, attack %s at %s a second", o.Edges, o.Attack, o.Rate)
	m, err := x.load(ctx, floods)
	if err != nil {
		return nil, errors.Join(err, x.whatNodesSay(ctx))
	}
	for _, l := range []load.ClientResult{before.Load, empty.Load, m.Load} {
		if err := trial.CheckDisturbed(l, o.Timeout, env.Pin.Client); err != nil {
			return nil, err
		}
	}
	return x.result(ctx, before, empty, m, own)
}
