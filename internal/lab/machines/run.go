// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
)

// Options select what is run.
type Options struct {
	Only     *regexp.Regexp // of the names; nil: all
	Quick    bool           // the few that `make test` runs
	Clients  int            // of each family, in each column
	Rate     load.Rate      // of the flood
	Bulk     int64          // bytes each way of the machines that transfer in bulk
	Tidegate string         // the program; empty: the one that FindTidegate finds
	Progress func(format string, args ...any)
}

// DefaultOptions are those of the command.
func DefaultOptions() Options {
	return Options{Clients: 30, Rate: 50_000, Bulk: bulkBytes, Progress: func(string, ...any) {}}
}

// Choose returns the scenarios that the options select.
func (o *Options) Choose() []Scenario {
	all := All()
	return slices.DeleteFunc(all, func(s Scenario) bool {
		return o.Quick && !s.Quick || o.Only != nil && !o.Only.MatchString(s.Name)
	})
}

// Run builds and measures the machines, one after another.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := check(All()); err != nil {
		return nil, err
	}
	chosen := o.Choose()
	if len(chosen) == 0 {
		return nil, errors.New("unknown scenario; --list shows the names")
	}
	w, err := rig.NewWorkplace(o.Tidegate, o.Progress)
	if err != nil {
		return nil, err
	}
	r := &Report{Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), Clients: o.Clients, Rate: float64(o.Rate), InQEMU: InQEMU}
	for i, s := range chosen {
		s = s.on(plane.KernelAdopts())
		begin := time.Now()
		row := o.one(ctx, w, fmt.Sprint("m", i), s)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), w.Close())
		}
		r.Rows = append(r.Rows, row)
		o.Progress("%3d/%d %s (%.1f s)", i+1, len(chosen), row.line(), time.Since(begin).Seconds())
	}
	return r, w.Close()
}

// one builds, measures and removes one scenario.
func (o *Options) one(ctx context.Context, w *rig.Workplace, tag string, s Scenario) Row {
	row := Row{Name: s.Name, About: s.About, Expected: Expected{How: s.How, Served: expectedServed(s, o.Clients)}, Canary: s.Canary}
	for _, need := range s.Needs {
		name, pkg, named := strings.Cut(need, "=")
		if !named {
			pkg = name
		}
		if _, err := exec.LookPath(name); err != nil {
			row.Wrong = append(row.Wrong, fmt.Sprintf("not built: %s is missing; apt-get install %s, or leave this scenario out by --run", name, pkg))
			return row
		}
	}
	if err := o.columns(ctx, w, tag, s, &row); err != nil {
		row.Wrong = append(row.Wrong, err.Error())
	}
	row.OK = row.Unbuilt != "" || (len(row.Wrong) == 0) != s.Canary
	return row
}

func expectedServed(s Scenario, clients int) int {
	switch s.Served {
	case 0:
		return clients
	case Nobody:
		return 0
	}
	return s.Served
}

// columns measures the three columns: without tidegate, with it, and with it under the flood.
func (o *Options) columns(ctx context.Context, w *rig.Workplace, tag string, s Scenario, row *Row) (err error) {
	m, err := newMachine(ctx, w, tag)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if s.Served == Nobody {
		m.patience = patienceDenied
	}
	// On a pair of veth, as the machine itself has: a kernel need not have the type dummy.
	if s.Link != "" && m.Sh(m.Server, "ip link add tg-probe type veth peer name tg-probed; ip link add link tg-probe name tg-above type %s", s.Link) != nil {
		kind, _, _ := strings.Cut(s.Link, " ")
		row.Unbuilt = "this kernel has no " + kind
		return nil
	}
	err = s.Build(m)
	if errors.Is(err, rig.ErrNoOpenVSwitch) {
		row.Unbuilt = err.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if m.Takeover == string(config.TakeoverAdopt) && !plane.KernelAdopts() {
		row.Unbuilt = "this kernel cannot adopt, and `takeover: adopt` does not start"
		return nil
	}
	if m.Bulk > 0 {
		m.Bulk = o.Bulk
	}
	families := []bool{false}
	if s.Only4 == "" && rig.HaveIPv6() {
		families = append(families, true)
	}
	for _, ipv6 := range families {
		if err := m.renew(); err != nil {
			return err
		}
		seen := m.crowd(ctx, ipv6, o.Clients, s.Hold)
		row.Families = append(row.Families, Family{IPv6: ipv6, Without: seen})
		if own := m.ClientAddr(ipv6).String(); s.Sources && !slices.Equal(seen.Sources, []string{own}) {
			row.Wrong = append(row.Wrong, fmt.Sprintf("%s: without: the server sees the clients' addresses as %v, want %s", familyName(ipv6), seen.Sources, own))
		}
	}
	if m.Bulk > 0 {
		if err := m.measure(ctx, row, func(f *Family) *Goodput { return &f.BulkWithout }); err != nil {
			return fmt.Errorf("without: %w", err)
		}
	}
	gate := &defences.Tidegate{Env: defences.Env{Workplace: w, Name: "host"}, Netns: m.Netns}
	defer func() { err = errors.Join(err, gate.Stop()) }()
	if err := gate.RunIn(ctx, m.Gate, "-"+tag, m.config); err != nil {
		return err
	}
	for i, ipv6 := range families {
		f := &row.Families[i]
		if err := m.renew(); err != nil {
			return err
		}
		before, err := gate.Counters(ctx)
		if err != nil {
			return err
		}
		f.Quiet = m.crowd(ctx, ipv6, o.Clients, s.Hold)
		after, err := gate.Counters(ctx)
		if err != nil {
			return err
		}
		f.QuietTaken = takenBetween(before, after)
		if err := m.renew(); err != nil {
			return err
		}
		if err := o.flooded(ctx, m, s, gate, f); err != nil {
			return err
		}
	}
	if m.Bulk > 0 {
		if err := m.measure(ctx, row, func(f *Family) *Goodput { return &f.Bulk }); err != nil {
			return fmt.Errorf("with tidegate: %w", err)
		}
	}
	row.judge(s, !m.Unflooded)
	if len(row.Wrong) > 0 {
		row.Why = whys(ctx, gate)
		row.Rules = m.rules()
	}
	return nil
}

// renew resets rules that remember clients.
func (m *Machine) renew() error {
	if m.Renew == nil {
		return nil
	}
	return m.Renew()
}

func (m *Machine) config(instance, secret string) string {
	lines := []string{"role: host", "instance: " + instance, "interfaces: [" + strings.Join(m.Interfaces, ", ") + "]",
		"secret_file: " + secret, "drain: 100ms", "takeover: " + m.Takeover}
	lines = append(lines, m.Top...)
	lines = append(lines, "services:", "  - name: web", fmt.Sprintf("    ports: [%d]", m.Port), "    mode: always")
	for _, s := range m.Service {
		lines = append(lines, "    "+s)
	}
	return strings.Join(lines, "\n") + "\n"
}

// flooded measures the third column of a family.
func (o *Options) flooded(ctx context.Context, m *Machine, s Scenario, gate *defences.Tidegate, f *Family) error {
	flood, err := load.NewFlood(m.ClientPort, m.floodPort(), load.FloodOptions{Target: m.Target(f.IPv6), CPU: -1})
	if err != nil {
		return err
	}
	defer flood.Close()
	before, err := gate.Counters(ctx)
	if err != nil {
		return err
	}
	came0, err := m.ServerPort.RxPackets()
	if err != nil {
		return err
	}
	held := 0
	if s.KernelFirst { // requests of the other family's flood live for a minute
		held = m.halfOpen()
	}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var floodErr error
	wg.Go(func() { _, floodErr = flood.Run(fctx, o.Rate) })
	// The clients start in the middle of the flood.
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		came, err := m.ServerPort.RxPackets()
		if err != nil || time.Now().After(end) {
			stop()
			wg.Wait()
			return errors.Join(err, floodErr, errors.New("no flood arrives"))
		}
		if came-came0 > floodHead {
			break
		}
	}
	f.Flood = m.crowd(ctx, f.IPv6, o.Clients, s.Hold)
	f.HalfOpen = max(0, m.halfOpen()-held)
	stop()
	wg.Wait()
	after, err := gate.Counters(ctx)
	if err != nil {
		return errors.Join(err, floodErr)
	}
	came, err := m.ServerPort.RxPackets()
	f.FloodTaken = takenBetween(before, after)
	f.SYNs = came - came0
	return errors.Join(err, floodErr)
}

// floodHead is how many SYNs arrive before the first client starts.
const floodHead = 3000

// Taken is what tidegate's counters counted between two readings.
type Taken struct {
	Adopted    uint64 `json:"adopted"`
	Translated uint64 `json:"translated"`
	Cookies    uint64 `json:"cookies"`
	Left       uint64 `json:"left,omitzero"`   // SYNs left to the kernel because their answer leaves by another interface
	Across     uint64 `json:"across,omitzero"` // such SYNs beyond the allowance, answered by that interface
}

func takenBetween(before, after map[string]uint64) Taken {
	d := func(name string) uint64 { return after[name] - before[name] }
	return Taken{Adopted: d("adopted"), Translated: d("split_ready"), Cookies: d("cookie_sent"),
		Left: d("pass_route") + d("pass_neighbour"), Across: d("reply_across")}
}

// whys returns what tidegate reports about its listeners.
func whys(ctx context.Context, gate *defences.Tidegate) (lines []string) {
	var s struct {
		Takeovers []struct {
			Ports, How, Why string
			Addresses       []string
		}
	}
	if err := gate.Status(ctx, &s); err != nil {
		return []string{err.Error()}
	}
	for _, t := range s.Takeovers {
		lines = append(lines, fmt.Sprintf("%s port %s: %s: %s", strings.Join(t.Addresses, ","), t.Ports, t.How, t.Why))
	}
	counters, err := gate.Counters(ctx)
	if err != nil {
		return append(lines, err.Error())
	}
	var counted []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if counters[name] > 0 {
			counted = append(counted, fmt.Sprintf("%s %d", name, counters[name]))
		}
	}
	return append(lines, "counted: "+strings.Join(counted, ", "))
}
