// SPDX-License-Identifier: Apache-2.0

// Package rules checks the tree against the import rules of ARCHITECTURE.md.
// Each rule is also tested on simulated trees that break it.
package rules

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// graph maps import paths to their imports, without tests.
type graph map[string][]string

// reach returns all packages linked into a package.
func (g graph) reach(from string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(p string) {
		for _, next := range g[p] {
			if !seen[next] {
				seen[next] = true
				visit(next)
			}
		}
	}
	visit(from)
	return seen
}

// within reports whether a package is one of these, or below one of them.
func within(p string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return p == f || strings.HasPrefix(p, f+"/") })
}

const (
	production = "tidegate/cmd/tidegate"
	laboratory = "tidegate/cmd/tidegate-lab"
	roles      = "tidegate/internal/role"
)

// ofTheLab are the packages that flood, measure and plot, with the flood's BPF programs.
var ofTheLab = []string{"tidegate/internal/lab", "tidegate/internal/bench", "tidegate/internal/device"}

// neverProduction are the packages that the production binary must not contain.
var neverProduction = append([]string{"gonum.org", "github.com/nats-io/nats-server", "github.com/osrg/gobgp", "google.golang.org/grpc", "tidegate/internal/bpfcount", "tidegate/internal/framegen", "tidegate/internal/vectors",
	"tidegate/internal/upstreamtest", "tidegate/internal/offender/offendertest", "tidegate/internal/binding/sim", "tidegate/test"}, ofTheLab...)

// rolesApart: no role imports another.
func rolesApart(g graph) (broken []string) {
	for p := range g {
		if !within(p, roles) {
			continue
		}
		for other := range g.reach(p) {
			if within(other, roles) && strings.Split(p, "/")[3] != strings.Split(other, "/")[3] {
				broken = append(broken, fmt.Sprintf("role %s contains %s", p, other))
			}
		}
	}
	return broken
}

// productionClean: the production binary cannot flood or plot.
func productionClean(g graph) (broken []string) {
	if len(g[production]) == 0 {
		return []string{production + " imports nothing: is it still there?"}
	}
	for p := range g.reach(production) {
		if within(p, neverProduction...) {
			broken = append(broken, production+" contains "+p)
		}
	}
	return broken
}

// labApart: only tidegate-lab, the lab's own packages and tests import the lab.
func labApart(g graph) (broken []string) {
	for p, imports := range g {
		if within(p, append([]string{laboratory, "tidegate/test"}, ofTheLab...)...) {
			continue
		}
		for _, other := range imports {
			if within(other, ofTheLab...) {
				broken = append(broken, p+" imports "+other)
			}
		}
	}
	return broken
}

// labOrder is the lab in layers from the bottom up: a package may import only packages of
// lower layers.
var labOrder = [][]string{{"labbpf", "sampler"}, {"rig"}, {"load"}, {"defences"}, {"trial"}, {"backlog", "fleets", "machines", "overload", "soak", "split", "strategies", "terminus", "traces"}, {"report"}, {"book"}}

// labInOrder: no package of the lab imports from its own layer or above.
func labInOrder(g graph) (broken []string) {
	const lab = "tidegate/internal/lab/"
	storey := map[string]int{}
	for i, names := range labOrder {
		for _, n := range names {
			storey[lab+n] = i + 1
		}
	}
	for p := range g {
		if !strings.HasPrefix(p, lab) {
			continue
		}
		own := storey[p]
		if own == 0 {
			broken = append(broken, p+" has no place in the order of the lab's packages")
		}
		for other := range g.reach(p) {
			if at := storey[other]; at >= own && at > 0 {
				broken = append(broken, p+" contains "+other)
			}
		}
	}
	return broken
}

// ignorance is what packages must not know, by ARCHITECTURE.md. A package is exempt from
// its own entry.
var ignorance = map[string][]string{
	"tidegate/internal/instance":        {roles, "tidegate/internal/status", "tidegate/internal/adopt", "tidegate/internal/p4", "tidegate/internal/dpdk"},
	"tidegate/internal/adopt":           {roles, "tidegate/internal/status", "tidegate/internal/p4", "tidegate/internal/dpdk"},
	"tidegate/internal/adopt/listeners": {"tidegate/internal/plane", "github.com/cilium/ebpf"},
	"tidegate/internal/config":          {"tidegate/internal/plane", "tidegate/internal/instance", "github.com/cilium/ebpf"},
	"tidegate/internal/plane":           {"tidegate/internal/config", "tidegate/internal/instance", "github.com/goccy/go-yaml"},
	"tidegate/internal/keys":            {"tidegate/internal/plane", "tidegate/internal/config", "github.com/cilium/ebpf"},
	"tidegate/internal/status":          {roles},
	"tidegate/internal/event":           {roles, "tidegate/internal/status", "tidegate/internal/instance", "tidegate/internal/plane"},
	"tidegate/internal/cli":             {"tidegate/internal/config", "tidegate/internal/plane"},
	"tidegate/internal/routers":         {"tidegate/internal/config", "tidegate/internal/plane", "os/exec"},
	"tidegate/internal/routers/speaker": {"tidegate/internal/config", "tidegate/internal/plane", "github.com/osrg/gobgp"},
	"tidegate/internal/routers/bgp":     {"tidegate/internal/config", "tidegate/internal/plane", roles},
}

// ignorant: no package contains what it must not know.
func ignorant(g graph) (broken []string) {
	for p, unknown := range ignorance {
		if _, there := g[p]; !there {
			broken = append(broken, p+" is not there: the rules are about another tree")
		}
		for other := range g.reach(p) {
			if within(other, unknown...) {
				broken = append(broken, p+" contains "+other)
			}
		}
	}
	return broken
}

// tree queries go for the packages of this module and all their imports.
func tree(t *testing.T) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "tidegate/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	g := graph{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		g[words[0]] = words[1:]
	}
	return g
}

func TestImports(t *testing.T) {
	g := tree(t)
	for name, rule := range map[string]func(graph) []string{"roles": rolesApart, "production": productionClean, "lab": labApart, "storeys": labInOrder, "ignorance": ignorant} {
		for _, b := range rule(g) {
			t.Errorf("%s: %s", name, b)
		}
	}
	if n := len(slices.Collect(maps.Keys(g))); n < 100 {
		t.Errorf("only %d packages were looked at", n)
	}
}

// The canary: each rule finds what is wrong in a simulated tree, and only that.
func TestImportRulesBite(t *testing.T) {
	with := func(change map[string][]string) graph {
		g := graph{production: {"tidegate/internal/cli", roles + "/host"}, laboratory: {"tidegate/internal/lab/rig", "tidegate/internal/bench"},
			roles + "/host": {"tidegate/internal/adopt"}, roles + "/server": {"tidegate/internal/adopt"},
			"tidegate/internal/bench": {"tidegate/internal/lab/rig"}, "tidegate/test/host": {"tidegate/internal/lab/rig"}}
		for p := range ignorance {
			g[p] = []string{"fmt"}
		}
		maps.Copy(g, change)
		return g
	}
	for _, c := range []struct {
		name   string
		rule   func(graph) []string
		change map[string][]string
		want   int
	}{
		{"roles in order", rolesApart, nil, 0},
		{"a role imports a role", rolesApart, map[string][]string{roles + "/server": {roles + "/host"}}, 1},
		{"by way of another package", rolesApart, map[string][]string{roles + "/server": {"tidegate/internal/adopt"}, "tidegate/internal/adopt": {roles + "/edge"}}, 2},
		{"a role imports its own folder", rolesApart, map[string][]string{roles + "/host": {roles + "/host/part"}}, 0},
		{"production in order", productionClean, nil, 0},
		{"production draws", productionClean, map[string][]string{"tidegate/internal/cli": {"gonum.org/v1/plot"}}, 1},
		{"production floods", productionClean, map[string][]string{roles + "/host": {"tidegate/internal/lab/labbpf"}}, 1},
		{"production serves NATS", productionClean, map[string][]string{"tidegate/internal/cli": {"github.com/nats-io/nats-server/v2/server"}}, 1},
		{"production is gone", productionClean, map[string][]string{production: nil}, 1},
		{"a package whose name begins alike", productionClean, map[string][]string{production: {"tidegate/internal/labels"}}, 0},
		{"the lab in order", labApart, nil, 0},
		{"a role imports the lab", labApart, map[string][]string{roles + "/edge": {"tidegate/internal/lab/load"}}, 1},
		{"a library imports the benchmark", labApart, map[string][]string{"tidegate/internal/schema": {"tidegate/internal/bench"}}, 1},
		{"the lab's storeys in order", labInOrder, map[string][]string{"tidegate/internal/lab/trial": {"tidegate/internal/lab/rig"}}, 0},
		{"a rig floods", labInOrder, map[string][]string{"tidegate/internal/lab/rig": {"tidegate/internal/lab/load"}}, 1},
		{"a flood knows a defence, by way of another package", labInOrder, map[string][]string{"tidegate/internal/lab/load": {"x"}, "x": {"tidegate/internal/lab/defences"}}, 1},
		{"neighbours", labInOrder, map[string][]string{"tidegate/internal/lab/split": {"tidegate/internal/lab/strategies"}}, 1},
		{"a package of the lab that nobody has placed", labInOrder, map[string][]string{"tidegate/internal/lab/new": {"fmt"}}, 1},
		{"ignorance in order", ignorant, nil, 0},
		{"the base knows a role", ignorant, map[string][]string{"tidegate/internal/instance": {roles + "/patrol"}}, 1},
		{"the base prints a switch", ignorant, map[string][]string{"tidegate/internal/instance": {"tidegate/internal/p4"}}, 1},
		{"the configuration knows BPF", ignorant, map[string][]string{"tidegate/internal/config": {"x"}, "x": {"github.com/cilium/ebpf/link"}}, 1},
	} {
		if got := c.rule(with(c.change)); len(got) != c.want {
			t.Errorf("%s: %d broken, want %d: %v", c.name, len(got), c.want, got)
		}
	}
}
