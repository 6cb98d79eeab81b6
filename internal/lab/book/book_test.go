// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/bench"
	"tidegate/internal/device"
	"tidegate/internal/lab/split"
	"tidegate/internal/lab/trial"
)

// sample is a chapter whose units count their runs.
func sample(runs map[string]int, do map[string]func(context.Context) error) []Chapter {
	c := Chapter{Name: "lemon", Title: "Sample"}
	for _, name := range []string{"a", "b", "c"} {
		c.Items = append(c.Items, Item{Name: "figure " + name, What: "what", Unit: name})
		c.Units = append(c.Units, Unit{Name: name, Run: func(ctx context.Context, _ Setting) (*Finding, error) {
			runs[name]++
			if f := do[name]; f != nil {
				if err := f(ctx); err != nil {
					return nil, err
				}
			}
			return &Finding{Lines: []Line{compare("figure "+name, "speed", "2", "1", true, "")},
				Plots: []Plot{{Title: "t", LogX: true, Curves: []Curve{{Name: "c", X: []float64{1, 10}, Y: []float64{1, 2}}}}}}, nil
		}})
	}
	return []Chapter{c}
}

func expect(t *testing.T, runs map[string]int, a, b, c int) {
	t.Helper()
	if runs["a"] != a || runs["b"] != b || runs["c"] != c {
		t.Fatalf("runs %v, want a %d, b %d, c %d", runs, a, b, c)
	}
}

// TestResume: what is interrupted or has failed is run again, what is finished is not, unless the tree,
// the setting or --again says so.
func TestResume(t *testing.T) {
	out, runs, do := t.TempDir(), map[string]int{}, map[string]func(context.Context) error{}
	chapters := sample(runs, do)
	o := Options{Out: out, Tree: "1"}
	ctx, cancel := context.WithCancel(t.Context())
	do["b"] = func(ctx context.Context) error { cancel(); return ctx.Err() }
	all, err := run(ctx, o, chapters)
	if !errors.Is(err, context.Canceled) || len(all) != 1 {
		t.Fatalf("interrupted in the second unit: %d results, %v", len(all), err)
	}
	expect(t, runs, 1, 1, 0)
	do["b"] = func(context.Context) error { return errors.New("no room") }
	if all, err = run(t.Context(), o, chapters); err == nil || !strings.Contains(err.Error(), "no room") || len(all) != 3 {
		t.Fatalf("a unit failed: %d results, %v", len(all), err)
	}
	expect(t, runs, 1, 2, 1)
	delete(do, "b")
	for _, step := range []struct {
		o       Options
		a, b, c int
	}{
		{o, 1, 3, 1},
		{o, 1, 3, 1},
		{Options{Out: out, Tree: "2"}, 2, 4, 2},
		{Options{Out: out, Tree: "2", Again: true}, 3, 5, 3},
		{Options{Out: out, Tree: "2", Setting: Setting{Smallest: true}}, 4, 6, 4},
		{Options{Out: out, Tree: "2", Chapters: []string{"terminus"}}, 4, 6, 4},
		{Options{Out: out, Tree: "2", Chapters: []string{"lemon/connect"}}, 4, 6, 4},
		{Options{Out: out, Tree: "3", Pages: true}, 4, 6, 4},
	} {
		if _, err := run(t.Context(), step.o, chapters); err != nil {
			t.Fatal(err)
		}
		expect(t, runs, step.a, step.b, step.c)
	}
	for _, name := range []string{"index.md", "lemon.md", "lemon-a-1.svg", "data/lemon-a.json"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "lemon.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The smallest run", "no verdict", "load average", "tidegate-lab book lemon/a --smallest"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "| agrees |") {
		t.Error("the smallest run has a verdict")
	}
}

// TestDerive: where a unit can, its lines are made again from the kept data, without a run.
func TestDerive(t *testing.T) {
	out, runs := t.TempDir(), map[string]int{}
	chapters := sample(runs, nil)
	o := Options{Out: out, Tree: "1", Setting: Setting{Smallest: true}}
	if _, err := run(t.Context(), o, chapters); err != nil {
		t.Fatal(err)
	}
	chapters[0].Units[1].Derive = func(data json.RawMessage) (*Finding, error) {
		return &Finding{Lines: []Line{compare("figure b", "speed, again", string(data), "1", true, "")}}, nil
	}
	all, err := run(t.Context(), o, chapters)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, runs, 1, 1, 1)
	if l := all[1].Lines[0]; l.What != "speed, again" || l.Ours != "null" || l.Agrees != nil {
		t.Errorf("%+v", l)
	}
	chapters[0].Units[1].Tree = func(context.Context, Setting) (string, error) { return "of its own", nil }
	if all, err = run(t.Context(), o, chapters); err != nil || all[1].Tree != "of its own" {
		t.Fatalf("%+v, %v", all[1], err)
	}
	expect(t, runs, 1, 2, 1)
	o.Tree = "2"
	if _, err = run(t.Context(), o, chapters); err != nil {
		t.Fatal(err)
	}
	expect(t, runs, 2, 2, 2)
}

// TestItems: every item says where it comes from or why it does not, and every unit belongs to an item or is on a page.
func TestItems(t *testing.T) {
	for _, c := range Chapters() {
		var names []string
		for _, u := range c.Units {
			if slices.Contains(names, u.Name) {
				t.Errorf("%s has two units %s: they would share a file", c.Name, u.Name)
			}
			names = append(names, u.Name)
		}
		for _, it := range c.Items {
			if it.Unit == "" && it.Not == "" {
				t.Errorf("%s, %s: neither a unit nor a reason", c.Name, it.Name)
			}
			if it.Unit != "" && !slices.Contains(names, it.Unit) {
				t.Errorf("%s, %s: no unit %q", c.Name, it.Name, it.Unit)
			}
		}
	}
}

func verdict(t *testing.T, f *Finding, what string) bool {
	t.Helper()
	for _, l := range f.Lines {
		if strings.HasPrefix(l.What, what) && l.Agrees != nil {
			return *l.Agrees
		}
	}
	t.Fatalf("no verdict on %q in %+v", what, f.Lines)
	return false
}

// TestVerdicts: numbers decide, each side of the paper's.
func TestVerdicts(t *testing.T) {
	for _, good := range []bool{true, false} {
		pick := func(yes, no float64) float64 {
			if good {
				return yes
			}
			return no
		}
		r := &bench.TerminusResult{FMRequestsPerS: pick(75_000, 74_999), EndToEndPerS: pick(75_000, 74_000), EndToEndCount: 1_500_000, BothNs: 100, BothAloneNs: pick(97, 96),
			ForwardNs: map[string]float64{"prefixes 50": 100, "prefixes 20, filters 100000": 100},
			WireNs:    map[string]float64{"prefixes 50": pick(87, 86), "prefixes 20, filters 100000": pick(86, 85)},
			Paths:     []bench.TwoPaths{{Name: "fifty", Ratio: pick(1.72, 1.71)}, {Name: "both", Ratio: pick(1.58, 1.57)}}}
		for what, finding := range map[string]func(*bench.TerminusResult) *Finding{"filter manager, one": controlFinding, "1.5 million": controlFinding, "50 prefixes": forwardingFinding,
			"forwarding lost": forwardingFinding, "20 prefixes, 100000 filters": combinedFinding, "fifty": pathsFinding, "both": pathsFinding} {
			if verdict(t, finding(r), what) != good {
				t.Errorf("terminus, %s: verdict %v", what, !good)
			}
		}
		bars := throughputFinding([]split.ThroughputBar{{Defence: "kernel", Lossless: 1000}, {Defence: "host", Lossless: pick(5700, 5500)}})
		if verdict(t, bars, "host over kernel") != good {
			t.Error("smartcookie, figure 5")
		}
		points, err := latencyFinding([]split.LatencyPoint{{Defence: "split", Rate: "10k", P50: pick(0.5, 0.53)}, {Defence: "reset", Rate: "10k", P50: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if verdict(t, points, "split against reset") != good {
			t.Error("smartcookie, figure 6")
		}
		cpu := cpuLines("50k", []split.CPUPoint{{Defence: "split", Attack: "syn", AtServer: pick(0, 0.01)}, {Defence: "split, server adopt", Attack: "ack", OfAttack: pick(60, 70)}, {Defence: "kernel", Attack: "syn", OfAttack: 100}})
		for _, what := range []string{"split, syn", "split, server adopt"} {
			if verdict(t, &Finding{Lines: cpu}, what) != good {
				t.Errorf("smartcookie, figure 7, %s", what)
			}
		}
		noisy := []split.CPUPoint{{Defence: "split, server adopt", Attack: "ack", OfAttack: pick(2, 140), Error: 20}, {Defence: "kernel", Attack: "syn", OfAttack: 100}}
		if verdict(t, &Finding{Lines: cpuLines("10k", noisy)}, "split, server adopt") != good {
			t.Error("smartcookie, figure 7, with errors")
		}
		connect := connectFinding(&trial.ConnectTimes{Connections: 10, Curves: []trial.ConnectCurve{{Name: trial.BacklogCurve(128), Within500: pick(0.9, 0.89)}}})
		if verdict(t, connect, trial.BacklogCurve(128)) != good {
			t.Error("lemon, figure 2")
		}
		row := func(layout string, mean float64) device.Row {
			return device.Row{Layout: layout, Policy: device.PolicyCookiesAlways, Throughput: device.Sample{N: 2, Mean: mean}}
		}
		tables := tablesFinding(&device.Tables{Table4: []device.Row{row(device.LayoutFreeBSD, 32), row(device.LayoutLinuxSHA1, pick(31, 33)), row(device.LayoutHybrid, 32)}})
		if verdict(t, tables, "Linux's cookie costs more than FreeBSD's") != good {
			t.Error("class2, table 4")
		}
	}
}

// TestUndecidedCost: a cost whose error spans the paper's figure neither agrees nor differs.
func TestUndecidedCost(t *testing.T) {
	for _, cost := range []float64{60, 70} {
		lines := cpuLines("10k", []split.CPUPoint{{Defence: "split, server adopt", Attack: "ack", OfAttack: cost, Error: 20}, {Defence: "kernel", Attack: "syn", OfAttack: 100}})
		if lines[0].Agrees != nil || !strings.Contains(lines[0].Reason, "undecided") {
			t.Errorf("a cost of %v ± 20: %+v", cost, lines[0])
		}
	}
}

// TestBrief: the index has a verdict for each item and the reasons once, the chapter's page what differs.
func TestBrief(t *testing.T) {
	lines := []Line{compare("b", "other", "1", "1", true, ""), compare("a", "first", "2", "2", true, ""), compare("a", "second", "3", "4", false, "slow"), beside("c", "only", "6", "", "not in the paper")}
	x := &Outcome{Chapter: "lemon", Unit: "u", Command: "tidegate-lab book lemon/u", Finding: &Finding{Lines: lines}}
	c := Chapter{Name: "lemon", Title: "Sample"}
	for _, name := range []string{"a", "b", "c"} {
		c.Items = append(c.Items, Item{Name: name, What: "what", Unit: "u", Not: "no such machine"})
	}
	c.Items = append(c.Items, Item{Name: "d", What: "what", Unit: "v"}, Item{Name: "e", What: "a drawing", Not: "nothing to measure"})
	got := index([]Chapter{c}, []*Outcome{x})
	for _, want := range []string{"| a | what | first: 2; 2 | [1 of 2 agree](lemon.md#u) | `tidegate-lab book lemon/u` |", "| other: 1; 1 | [agrees](lemon.md#u) |", "| only: 6; - | [1 line, without a verdict](lemon.md#u) |",
		"| d | what | - | not measured yet | `tidegate-lab book lemon/v` |", "| e | a drawing | - | not here | - |", "- a, b, c: no such machine.\n", "- e: nothing to measure.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the index lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "slow") {
		t.Errorf("the index has a reason:\n%s", got)
	}
	if got, want := page(c, []*Outcome{x}), "## What differs\n\n| | what | ours | the paper's | why |\n|---|---|---|---|---|\n| a | second | 3 | 4 | slow |\n\n## u\n"; !strings.Contains(got, want) {
		t.Errorf("the page lacks %q:\n%s", want, got)
	}
	if x.Finding = nil; brief("a", x) != "failed" {
		t.Error("a failure has a verdict")
	}
}

// TestBounds recomputes the bounds that the study printed for its row "Size_2".
func TestBounds(t *testing.T) {
	se, low, high := bounds(device.Sample{N: 30, Mean: 31.7557, SD: 0.03126})
	for _, x := range [][2]float64{{se, 0.00571}, {low, 31.7440}, {high, 31.7673}} {
		if d := x[0] - x[1]; d > 0.0001 || d < -0.0001 {
			t.Errorf("got %v, the study has %v", x[0], x[1])
		}
	}
}

// TestRemaining: the progress of a long unit says how much of it is left, that of a shortened one does not pretend to know.
func TestRemaining(t *testing.T) {
	var said []string
	o := Options{Setting: Setting{Progress: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}}
	o.remaining(16*time.Minute)("%d served", 7)
	o.remaining(90 * time.Second)("done")
	o.remaining(0)("at once")
	o.Smallest = true
	o.remaining(16 * time.Minute)("small")
	if want := []string{"7 served [about 16 min left]", "done [about 90 s left]", "at once", "small"}; !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
	if got := o.expects(time.Minute, time.Hour); !strings.Contains(got, "shorter") {
		t.Error(got)
	}
	o.Smallest = false
	if got := o.left(Chapters()); got < 30*time.Minute {
		t.Errorf("all chapters take %s", got)
	}
}
