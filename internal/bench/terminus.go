// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/cilium/ebpf"

	"tidegate/internal/binding/sim"
	"tidegate/internal/lab/rig"
	"tidegate/internal/version"
)

// TerminusOptions say how `bench --role terminus` measures.
type TerminusOptions struct {
	Options
	MaxFilters int      // of the forwarding part
	Requests   int      // of each control-plane part
	Parts      []string // some of TerminusParts; empty: Only, or all
}

// TerminusResult is one run. Rates are those of a wall clock; the part measured has
// one CPU to itself and its counterpart the other.
type TerminusResult struct {
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Rounds  int    `json:"rounds"`

	FMRequestsPerS     float64 `json:"fm_requests_per_s"`        // one filter a message
	FMFiltersPerS      float64 `json:"fm_filters_per_s"`         // full messages
	BMRequestsPerS     float64 `json:"bm_requests_per_s"`        // one filter a message, nonces by the daemon
	BMFiltersPerS      float64 `json:"bm_filters_per_s"`         // full messages
	NonceXDPPerS       float64 `json:"nonce_xdp_per_s"`          // nonces by XDP, the generator's cost taken off
	NonceXDPAllPerS    float64 `json:"nonce_xdp_all_per_s"`      // the same, generator and sink on the same CPU included
	PatrolInstallsPerS float64 `json:"patrol_installs_per_s"`    // over its control connection, 100 a message
	EndToEndPerS       float64 `json:"end_to_end_filters_per_s"` // filter manager, border manager and patrol on two CPUs, full messages
	EndToEndCount      int     `json:"end_to_end_filters"`
	EndToEndCPUNs      float64 `json:"end_to_end_cpu_ns"`    // processor time of all three, a filter: what a busy machine does not change
	TableInstallsPerS  float64 `json:"table_installs_per_s"` // into the map alone, fresh filters

	// Forwarding, ns a frame, generator and sink included; by step.
	ForwardNs map[string]float64 `json:"forward_ns"` // through a patrol
	WireNs    map[string]float64 `json:"wire_ns"`    // through a program that only sends on, measured in turn
	NetNs     map[string]float64 `json:"net_ns"`     // median of the differences

	FilterBytes float64 `json:"bytes_per_filter"`
	FilterMiB   float64 `json:"filter_table_mib"`

	Bindings []*sim.Result `json:"bindings"` // in virtual time, small: all honest, a fifth hostile

	Paths []TwoPaths `json:"two_paths"`

	BothAloneNs      float64 `json:"forward_alone_ns"`      // the same traffic, nothing installed meanwhile
	BothSpinNs       float64 `json:"forward_spinning_ns"`   // while the other CPU counts in its registers
	BothNs           float64 `json:"forward_installing_ns"` // while the other CPU installs at full speed
	BothInstallsPerS float64 `json:"installs_while_forwarding_per_s"`
}

type (
	program   = *ebpf.Program
	updatable interface{ Update(*ebpf.Program) error }
)

type terminusBench struct {
	ctx context.Context
	opt TerminusOptions
	res *TerminusResult
}

var terminusParts = []struct {
	name, what string
	run        func(*terminusBench) error
}{
	{"filter-manager", "filter manager", (*terminusBench).measureFM},
	{"border-manager", "border manager", (*terminusBench).measureBM},
	{"patrol", "patrol, control plane", (*terminusBench).measurePatrol},
	{"together", "all three together", (*terminusBench).measureEndToEnd},
	{"nonces", "nonces by XDP", (*terminusBench).measureEarly},
	{"prefixes", "forwarding, by allowed prefixes", (*terminusBench).measurePrefixes},
	{"filters", "forwarding, by filters", (*terminusBench).measureForwarding},
	{"combined", "forwarding, by prefixes and filters", (*terminusBench).measureCombined},
	{"paths", "forwarding, on one processor and on two", (*terminusBench).measurePaths},
	{"bindings", "bindings", (*terminusBench).measureBindings},
}

// TerminusParts are the names of the groups of figures.
func TerminusParts() (names []string) {
	for _, p := range terminusParts {
		names = append(names, p.name)
	}
	return names
}

// RunTerminus measures all parts once, or opt.Only.
func RunTerminus(ctx context.Context, opt TerminusOptions) (*TerminusResult, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the benchmark needs root, for network namespaces and BPF: run it with sudo")
	}
	if opt.Progress == nil {
		opt.Progress = func(string, ...any) {}
	}
	if opt.Exe == "" {
		exe, err := rig.FindTidegate()
		if err != nil {
			return nil, err
		}
		opt.Exe = exe
	}
	b := &terminusBench{ctx: ctx, opt: opt, res: &TerminusResult{Version: version.Version, Kernel: kernelRelease(),
		CPU: cpuModel(), Rounds: opt.Rounds, ForwardNs: map[string]float64{}, WireNs: map[string]float64{}, NetNs: map[string]float64{}}}
	for _, part := range terminusParts {
		if opt.Only != "" && opt.Only != part.name || len(opt.Parts) > 0 && !slices.Contains(opt.Parts, part.name) {
			continue
		}
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

// verdictOf returns whether a target is reached.
func verdictOf(have, want float64, atLeast bool) string {
	if (have >= want) == atLeast {
		return "reached"
	}
	return "MISSED"
}

// Print writes the result beside the paper's figures.
func (r *TerminusResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, Linux %s, %s\n\n", r.Version, r.Kernel, r.CPU)
	fmt.Fprintln(t, "CONTROL PLANE\tPER SECOND\tPAPER\tTARGET\t")
	row := func(name string, have, paper, want float64) {
		if have == 0 { // not measured
			return
		}
		text := "-"
		if paper > 0 {
			text = fmt.Sprintf("%.0f", paper)
		}
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%.0f\t%s\n", name, have, text, want, verdictOf(have, want, true))
	}
	row("filter manager, one filter a message", r.FMRequestsPerS, 75_000, 150_000)
	row("border manager, one filter a message", r.BMRequestsPerS, 87_000, 200_000)
	if r.NonceXDPPerS > 0 {
		row("border manager, nonces by XDP", r.NonceXDPPerS, 0, 1_500_000)
		fmt.Fprintf(t, "  the same, its generator on the same CPU included\t%.0f\t-\t-\t\n", r.NonceXDPAllPerS)
	}
	row("patrol, 100 filters a message", r.PatrolInstallsPerS, 354_000, 1_000_000)
	row("all three, full messages", r.EndToEndPerS, 0, 1_000_000)
	if r.EndToEndCPUNs > 0 {
		fmt.Fprintf(t, "  processor time of the three\t%.0f ns a filter\t-\t-\t\n", r.EndToEndCPUNs)
	}
	for _, other := range []struct {
		name string
		have float64
	}{
		{"filter manager, full messages", r.FMFiltersPerS}, {"border manager, full messages", r.BMFiltersPerS},
		{"into the patrol's table alone", r.TableInstallsPerS},
	} {
		if other.have > 0 {
			fmt.Fprintf(t, "%s\t%.0f\t-\t-\t\n", other.name, other.have)
		}
	}
	fmt.Fprintln(t, "\nFORWARDING, 60-BYTE FRAMES\tns A FRAME\tABOVE A WIRE\tSHARE OF ITS RATE\tPAPER")
	if r.ForwardNs["prefixes 1"] > 0 {
		for _, n := range []string{"0", "1", "20", "50", "150", "100000"} {
			name, paper := "prefixes "+n, map[string]string{"50": "87 % of line rate", "150": "75 % of line rate"}[n]
			fmt.Fprintf(t, "allowed prefixes: %s\t%.0f\t%.0f\t%.0f %%\t%s\n", n, r.ForwardNs[name], r.NetNs[name],
				100*r.WireNs[name]/r.ForwardNs[name], paper)
		}
		flat := r.ForwardNs["prefixes 100000"] / r.WireNs["prefixes 100000"] / (r.ForwardNs["prefixes 1"] / r.WireNs["prefixes 1"])
		fmt.Fprintf(t, "100,000 prefixes over 1, each over its wire\t%.2f\t\ttarget <= 1.15\t%s\n", flat, verdictOf(flat, 1.15, false))
	}
	steps := r.filterSteps()
	for _, name := range steps {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t\t\n", name, r.ForwardNs[name], r.NetNs[name])
	}
	if len(steps) > 1 {
		more := r.NetNs[steps[len(steps)-2]] - r.NetNs["filters 0, passing"]
		fmt.Fprintf(t, "most filters over none, passing\t\t%+.0f\ttarget <= +150\t%s\n", more, verdictOf(more, 150, false))
	}
	r.printCombined(t)
	if r.BothNs > 0 {
		r.printTable(t)
	}
	if len(r.Bindings) == 0 {
		return t.Flush()
	}
	fmt.Fprintln(t, "\nBINDINGS, VIRTUAL TIME\tCOLD START\tONE UPDATE\tREACHED\tTARGET")
	for _, s := range r.Bindings {
		u := s.WorstUpdate()
		ok := verdictOf(u.MaxMs, 2000, false)
		if !s.OK() {
			ok = verdictOf(0, 1, true)
		}
		fmt.Fprintf(t, "%d bindings, %d managers, %d hostile, links of %.0f ms\t%.1f s\t%.0f ms\t%d of %d\t< 2 s (200: lab bindings) %s\n", s.Bindings, s.Managers,
			s.Hostile, s.DelayMs, s.Cold.MaxMs/1e3, u.MaxMs, u.Reached, u.Of, ok)
	}
	return t.Flush()
}

// printTable writes what the filter table takes, and what installing costs forwarding.
func (r *TerminusResult) printTable(t io.Writer) {
	fmt.Fprintf(t, "\nfilter table\t%.0f MiB\t%.0f bytes a filter\ttarget <= 1536 MiB\t%s\n", r.FilterMiB, r.FilterBytes, verdictOf(r.FilterMiB, 1536, false))
	loss := 100 * (1 - r.BothAloneNs/r.BothNs)
	fmt.Fprintf(t, "the other CPU busy with other work\t%.1f %% loss\t\t\t\n", 100*(1-r.BothAloneNs/r.BothSpinNs))
	verdict := verdictOf(loss, 3, false)
	if r.BothAloneNs > 1.05*r.BothSpinNs { // a busy neighbour makes nothing faster
		verdict = "no verdict: the machine's speed changed meanwhile"
	}
	fmt.Fprintf(t, "both planes at once\t%.1f %% loss\tat %.0f installs/s\tpaper 86 -> 83 %%, target <= 3 %%\t%s\n", loss, r.BothInstallsPerS, verdict)
}

// filterSteps are the forwarding figures with filters, fewest first; the last is
// that of dropped packets.
func (r *TerminusResult) filterSteps() (list []string) {
	for _, n := range []string{"0", "1", "100000", "1000000", "10000000"} {
		for _, path := range []string{"passing", "dropped"} {
			if _, there := r.ForwardNs["filters "+n+", "+path]; there {
				list = append(list, "filters "+n+", "+path)
			}
		}
	}
	return list
}
