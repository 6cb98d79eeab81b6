// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/rig"
	"tidegate/internal/p4"
	p4src "tidegate/p4"
)

// Planes of an edge.
const (
	planeXDP = "xdp"
	planeP4  = "p4"
)

// layout is the cookie layout that edge and server share.
func (o *Options) layout() string {
	if o.Plane == planeP4 {
		return layoutSmartcookie // the layout that a switch can compute
	}
	return o.Layout
}

// Ports of the switch.
const (
	p4Attack = 1
	p4Client = 2
	p4Server = 3

	p4Thrift = "127.0.0.1:9090" // in the edge's own namespace
)

// p4Switch is the edge as a P4 program: simple_switch on the three ports of the edge's
// namespace, in which the kernel forwards nothing, and `tidegate run` beside it.
type p4Switch struct {
	ns         *rig.Namespace
	sw, runner *rig.Process
}

const p4Config = `instance: %s
role: edge
plane: p4
protocol: %s
edge_id: 1
secret_file: %s
epoch: %s
key_horizon: %s
learning: 0s
unknown_rate: %s
hops: 16
interfaces: [tg-flood, tg-legit, tg-inner]
inside: [tg-inner]
p4:
  thrift: %q
  macs: ["%s on tg-inner", "%s on tg-inner", "%s on tg-legit"]
  port_macs:
    - "tg-inner from %s to %s"
    - "tg-legit from %s to %s"
    - "tg-flood from %s to %s"
services:
  - {name: web, ports: [%d], wscale: 7}
`

// p4Tool finds a program by an environment variable or on PATH.
func p4Tool(variable, name string) (string, error) {
	if named := os.Getenv(variable); named != "" {
		return exec.LookPath(named)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("--plane p4 needs %s: set %s or put it on PATH; docs/p4.md says where it comes from", name, variable)
	}
	return path, nil
}

// compileEdge writes the sources to dir and compiles the edge.
func compileEdge(ctx context.Context, dir string) (string, error) {
	p4c, err := p4Tool("P4C", "p4c-bm2-ss")
	if err != nil {
		return "", err
	}
	src, out := filepath.Join(dir, "p4"), filepath.Join(dir, "edge.json")
	if err := os.CopyFS(src, fs.FS(p4src.Files)); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, p4c, "--std", "p4-16", "-o", out, filepath.Join(src, "v1model", "edge.p4"))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("p4c: %w: %s", err, text)
	}
	return out, nil
}

// startP4 runs the edge of this experiment as a switch.
func (x *run) startP4(ctx context.Context, secret string) (err error) {
	simpleSwitch, err := p4Tool("SIMPLE_SWITCH", "simple_switch")
	if err != nil {
		return err
	}
	json, err := compileEdge(ctx, x.env.Dir)
	if err != nil {
		return err
	}
	e := x.s.Edges[0]
	node := &node{Tidegate: defences.Tidegate{Env: x.env.Defence(), NS: e.NS}, role: "edge", p4: &p4Switch{ns: e.NS}}
	if err := x.prepareSwitchPorts(e); err != nil {
		return err
	}
	node.p4.sw, err = rig.StartProcess(e.NS, -1, nil, nil, simpleSwitch, "-i", fmt.Sprintf("%d@tg-flood", p4Attack),
		"-i", fmt.Sprintf("%d@tg-legit", p4Client), "-i", fmt.Sprintf("%d@tg-inner", p4Server),
		"--thrift-port", "9090", json)
	if err != nil {
		return err
	}
	x.nodes = append(x.nodes, node)
	return node.p4.run(ctx, x, secret)
}

// prepareSwitchPorts takes the ports from the kernel's forwarding and lets the generator's frames,
// which come by ndo_xdp_xmit, arrive (see Topology.attachPrograms).
func (x *run) prepareSwitchPorts(e *rig.EdgeHost) error {
	off := [][2]string{{"net.ipv4.ip_forward", "0"}}
	if rig.HaveIPv6() {
		off = append(off, [2]string{"net.ipv6.conf.all.forwarding", "0"})
	}
	if err := e.NS.SetSysctls(off...); err != nil {
		return err
	}
	for _, end := range []struct {
		port *rig.Port
		prog *ebpf.Program
	}{{x.s.FloodPort, x.s.Programs.TgLabPass}, {x.s.LegitPort, x.s.Programs.TgLabPass}, {e.Inner, x.s.Programs.TgLabPass}} {
		l, err := end.port.AttachXDP(end.prog)
		if err != nil {
			return err
		}
		x.s.OnClose(l.Close)
		// Segments merged by GRO would be too large to forward.
		if err := end.port.SetOffload("rx-gro", false); err != nil {
			return err
		}
	}
	return nil
}

// p4Text is the controller's configuration; ports are those whose addresses it contains, in that order.
func p4Text(instance, secret string, o Options, horizon time.Duration, ports []*rig.Port) string {
	args := []any{instance, o.Mode, secret, o.Epoch, horizon, o.UnknownRate, p4Thrift}
	for _, p := range ports {
		args = append(args, p.MAC)
	}
	return fmt.Sprintf(p4Config, append(args, rig.ServicePort)...)
}

// run starts the controller as soon as the switch listens.
func (s *p4Switch) run(ctx context.Context, x *run, secret string) error {
	o, e := x.opts, x.s.Edges[0]
	horizon := max(2*time.Minute, 2*o.Epoch)
	config := filepath.Join(x.env.Dir, "p4.yaml")
	text := p4Text(rig.InstPrefix+x.env.Owner.String()+"-switch", secret, o, min(horizon, 64*o.Epoch), []*rig.Port{
		x.s.FloodPort, x.s.LegitPort, e.Inner, e.Inner, e.ServerPort, x.s.LegitPort, x.s.ClientPort, x.s.FloodPort, x.s.AttackerPort})
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := s.awaitThrift(ctx); err != nil {
		return err
	}
	ready := rig.NewLineWaiter(rig.ReadyLine)
	var err error
	if s.runner, err = x.env.StartTidegate(s.ns, ready, "run", "-c", config, "--clock-offset", o.Skew.String()); err != nil {
		return err
	}
	select {
	case <-ready.Seen:
		return nil
	case <-s.runner.Exited:
		return fmt.Errorf("p4: tidegate run exited before it was ready: %w", errors.Join(s.runner.Failure()))
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rig.ReadyTimeout):
		return fmt.Errorf("p4: not ready after %s: %s", rig.ReadyTimeout, s.runner.Stderr.String())
	}
}

// awaitThrift waits until the switch answers, the only sign that it is ready.
func (s *p4Switch) awaitThrift(ctx context.Context) error {
	deadline := time.Now().Add(rig.ReadyTimeout)
	for {
		err := s.ns.Do(func() error { return p4.Ping(ctx, p4Thrift) })
		if err == nil {
			return nil
		}
		select {
		case <-s.sw.Exited:
			return fmt.Errorf("simple_switch ended: %w", errors.Join(s.sw.Failure()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
			if time.Now().After(deadline) {
				return fmt.Errorf("simple_switch: %w", err)
			}
		}
	}
}

// status reads the switch's counters and filter.
func (s *p4Switch) status(ctx context.Context) (st nodeStatus, err error) {
	var counts map[string]p4.Counts
	var filter *p4.FilterFigures
	err = s.ns.Do(func() error {
		counts, err = p4.ReadCounters(ctx, p4Thrift, p4.ProgramEdge, map[int]string{1: "web"})
		if err == nil {
			filter, err = p4.ReadFilter(ctx, p4Thrift)
		}
		return err
	})
	if err != nil {
		return st, err
	}
	st.Services = append(st.Services, struct {
		Counters map[string]uint64 `json:"counters"`
	}{counts["web"]})
	st.Edge = &struct {
		FPComputed float64 `json:"fp_rate_computed"`
		FPMeasured float64 `json:"fp_rate_measured"`
		Alarm      bool    `json:"filter_alarm"`
	}{filter.Computed, filter.Measured, filter.Alarm}
	return st, nil
}

func (s *p4Switch) stop() error {
	if s.runner != nil {
		s.runner.End(syscall.SIGINT, defences.StopGrace)
	}
	s.sw.Stop(defences.StopGrace)
	return nil
}
