// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/plane"
	"tidegate/internal/version"
)

// p4State is what the controller of a switch leaves for `status`, once a second.
type p4State struct {
	Program string     `json:"program"`
	Thrift  string     `json:"thrift"` // in the network namespace of the controller
	Figures p4.Figures `json:"figures"`
}

// P4 is a switch as `status` shows it. Counters are the switch's; if it does not
// answer, there are none.
type P4 struct {
	Program string `json:"program"`
	Thrift  string `json:"thrift"`
	Why     string `json:"why,omitempty"` // it does not answer
	p4.Figures
}

// P4Instance is the running controller of a switch, as an instance.
type P4Instance struct {
	dir    string
	cfg    *p4.Config
	state  instance.StateFile
	p4     p4State
	log    *slog.Logger
	warned bool
	unlock func()
	stop   func() // of the metrics
}

// KeepP4 makes a controller an instance: locked, known to `status` and, if its configuration
// says so, to Prometheus. Close it. Without the right to do so it warns and goes on.
func KeepP4(ctx context.Context, opt instance.Options, cfg *p4.Config) (*P4Instance, error) {
	opt.Complete()
	k := &P4Instance{dir: opt.StateDir, cfg: cfg, log: opt.Log, stop: func() {}}
	k.state = instance.StateFile{Role: config.RoleProxy, Forwarding: string(config.ForwardBridge), Version: version.Version, PID: os.Getpid(),
		Started: time.Now(), EpochNs: int64(cfg.Epoch), KeyHorizon: int64(cfg.KeyHorizon)}
	k.p4 = p4State{Program: cfg.Program, Thrift: cfg.Thrift}
	if cfg.Program == p4.ProgramEdge {
		k.state.Role = config.RoleEdge
	}
	k.services()
	var err error
	k.unlock, err = instance.Lock(opt.StateDir, cfg.Instance)
	if errors.Is(err, fs.ErrPermission) { // driving a switch takes no privilege
		k.log.Warn("no permission for the state file: `tidegate status` and metrics will not show this instance; run it as root for them", "error", err)
		k.unlock, k.warned, cfg.Metrics = func() {}, true, netip.AddrPort{}
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	k.Figures(p4.Figures{Since: k.state.Started})
	if cfg.Metrics.IsValid() {
		if k.stop, err = ServeMetrics(ctx, opt, cfg.Instance, cfg.Metrics, opt.Log); err != nil {
			k.stop = func() {}
			k.Close()
			return nil, err
		}
	}
	return k, nil
}

// services lists what is counted.
func (k *P4Instance) services() {
	k.state.Services = nil
	for _, s := range k.cfg.Services {
		out := instance.StateService{ID: uint32(s.ID), Name: s.Name, Mode: string(s.Mode)}
		if k.cfg.Program != p4.ProgramEdge {
			out.Strategy = k.cfg.Program
		}
		k.state.Services = append(k.state.Services, out)
	}
}

// Reloaded applies another configuration; p4.RunOptions.Reloaded.
func (k *P4Instance) Reloaded(cfg *p4.Config) {
	k.cfg = cfg
	k.services()
	k.Figures(k.p4.Figures)
}

// Figures writes what the controller knows; p4.RunOptions.Figures.
func (k *P4Instance) Figures(f p4.Figures) {
	k.p4.Figures = f
	if f.Answers { // it loads keys as time goes by
		k.state.LastKey = keys.Epoch(time.Now().Add(time.Duration(k.cfg.KeyHorizon)), time.Duration(k.cfg.Epoch))
	}
	var err error
	if k.state.P4, err = json.Marshal(&k.p4); err == nil {
		err = k.state.Write(instance.StatePath(k.dir, k.cfg.Instance))
	}
	if err != nil && !k.warned {
		k.warned = true
		k.log.Warn("cannot write the state file; `tidegate status` is out of date", "error", err)
	}
}

// LastKey is the last epoch that the switch has a key of.
func (k *P4Instance) LastKey() uint64 { return k.state.LastKey }

// Leave ends the process's part and keeps the state file: the switch goes on.
func (k *P4Instance) Leave() error {
	k.stop()
	defer k.unlock()
	if k.warned { // there is no file that we may write
		return nil
	}
	k.state.Stopped = time.Now()
	return k.state.Write(instance.StatePath(k.dir, k.cfg.Instance))
}

// SwitchOf is the switch named in an instance's state; there reports whether it has one.
func SwitchOf(stateDir, name string) (thrift, program string, there bool, err error) {
	st, err := readStateFile(stateDir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil || len(st.P4) == 0 {
		return "", "", false, err
	}
	var left p4State
	if err := json.Unmarshal(st.P4, &left); err != nil {
		return "", "", false, fmt.Errorf("state of instance %q: %w", name, err)
	}
	return left.Thrift, left.Program, true, nil
}

// Close removes the instance.
func (k *P4Instance) Close() {
	k.stop()
	_ = instance.RemoveState(k.dir, k.cfg.Instance)
	k.unlock()
}

// p4Status asks the switch, whether or not its controller lives.
func p4Status(st *instance.StateFile, name, stateDir string) (*Status, error) {
	var left p4State
	if err := json.Unmarshal(st.P4, &left); err != nil {
		return nil, fmt.Errorf("state of instance %q: %w", name, err)
	}
	epoch := time.Duration(st.EpochNs)
	out := &Status{Role: st.Role, Forwarding: st.Forwarding, Version: st.Version, Instance: name, PID: st.PID, Started: st.Started,
		Epoch: keys.Epoch(time.Now(), epoch), KeysUntil: keys.EpochStart(st.LastKey+1, epoch),
		P4: &P4{Program: left.Program, Thrift: left.Thrift, Figures: left.Figures}}
	var err error
	if out.Running, out.Starting, err = instance.RunningFrom(stateDir, name, st.Run); err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, svc := range st.Services {
		names[int(svc.ID)] = svc.Name
	}
	if !out.Running {
		out.Since = st.Stopped
	}
	counts, err := p4.ReadCounters(context.Background(), left.Thrift, left.Program, names)
	if err != nil {
		out.P4.Answers, out.P4.Why = false, err.Error()
		return out, nil
	}
	out.P4.Answers, out.Global = true, counts[""]
	out.Edge = edgeOfSwitch(left.Figures.Filter)
	for _, svc := range st.Services {
		out.Services = append(out.Services, Service{Name: svc.Name, Mode: svc.Mode, Strategy: svc.Strategy, Counters: counts[svc.Name]})
	}
	return out, nil
}

// edgeOfSwitch is the filter in a switch's registers, as the controller last read it;
// nil for other programs.
func edgeOfSwitch(f *p4.FilterFigures) *Edge {
	if f == nil {
		return nil
	}
	out := &Edge{FPComputed: f.Computed, FPMeasured: f.Measured, Probes: f.Probes, Alarm: f.Alarm,
		Positions: plane.BloomPartitions << p4.FilterBits, Turned: f.Turned, Learning: f.Learning, At: f.At}
	for g := range f.Fill {
		out.Generations = append(out.Generations, Generation{Active: g == int(f.Active), Fill: f.Fill[g], Flows: f.Flows[g]})
	}
	return out
}
