// SPDX-License-Identifier: Apache-2.0

package book

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/bench"
	"tidegate/internal/lab/backlog"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
	"tidegate/internal/lab/sampler"
)

// TestVerdictsOfMeLove: numbers decide, each side of the paper's.
func TestVerdictsOfMeLove(t *testing.T) {
	for _, good := range []bool{true, false} {
		pick := func(yes, no float64) float64 {
			if good {
				return yes
			}
			return no
		}
		spread := func(v float64) bench.Spread { return bench.Spread{Median: v, Min: v, Max: v} }
		batches := batchesFinding(&bench.DPDKResult{Batch: map[string]map[string]bench.Spread{"cookie": {"1": spread(10), "8": spread(pick(13, 12)), "64": spread(pick(12, 10))}},
			Cores:       map[string]map[string]bench.Spread{"cookie": {"1": spread(10), "2": spread(20), "two_over_one": spread(pick(1.9, 1.8))}},
			MppsPerCore: map[string]bench.Spread{"cookie": spread(pick(7.5, 7.4))}})
		for _, what := range []string{"cookie: batches matter", "cookie: 64 is the best", "cookie: two processors", "cookie: line rate"} {
			if verdict(t, batches, what) != good {
				t.Errorf("%s: verdict %v", what, !good)
			}
		}
		point := func(offered float64, ok int, tail float64) overload.Point {
			return overload.Point{Offered: offered, Requests: 1000, OK: ok, Success: float64(ok) / 1000, Latency: load.Quantiles{P50: 1, P999: tail}}
		}
		half := point(40, int(pick(1000, 999)), 1)
		proxy := proxyFinding(&overload.Result{Defences: []*overload.Defence{
			{Name: defences.ProxyPrefix + "auth-full", Capacity: overload.Capacity{Median: 100}, Points: []overload.Point{half, point(200, 0, 1)},
				Levels: &overload.Levels{Seconds: 30, None: point(0, 1000, pick(4, 4.1)), Half: half, Overload: point(200, 500, 1000)}},
			{Name: defences.ProxyPrefix + "auth-cookie", Capacity: overload.Capacity{Median: pick(50, 49)}}}}, 100)
		for _, what := range []string{"auth-cookie over auth-full", "proxy-auth-full, 100 requests/s: all served", "proxy-auth-full, 100 requests/s for 30 s, no flood"} {
			if verdict(t, proxy, what) != good {
				t.Errorf("%s: verdict %v", what, !good)
			}
		}
		profile := profileFinding([]overload.Profiled{
			{Defence: defences.None, Point: overload.Point{Offered: 20_000}, Profile: &sampler.Profile{Groups: map[string]float64{sampler.GroupIdle: pick(0.2, 0.19)}}},
			{Defence: defences.Kernel, Point: overload.Point{Offered: 500_000}, Profile: &sampler.Profile{Groups: map[string]float64{sampler.GroupIdle: pick(0.09, 0.1),
				sampler.GroupHash: pick(0.04, 0.06), sampler.GroupTCP: pick(0.5, 0.4)}}}})
		for _, what := range []string{"none at 20000 SYN/s: the processor is not", "kernel at 500000 SYN/s: the hash", "kernel at 500000 SYN/s: most", "kernel at 500000 SYN/s: the processor is the limit"} {
			if verdict(t, profile, what) != good {
				t.Errorf("%s: verdict %v", what, !good)
			}
		}
		curve := func(n int, within, capacity float64, walked uint64) backlog.Curve {
			c := backlog.Curve{Rate: "20k", Capacity: capacity, Stats: backlog.Stats{Dropped: 10, Walked: walked}}
			c.Backlog, c.Within500 = n, within
			return c
		}
		list := listFinding([]backlog.Curve{curve(128, pick(0.9, 0.89), 100, uint64(pick(960, 800))), curve(1024, 0.5, pick(79, 80), 7680)}, 100)
		for _, what := range []string{"backlog 128: entries", "list with random drop, backlog 128", "SYNs a second that the process answers"} {
			if verdict(t, list, what) != good {
				t.Errorf("%s: verdict %v", what, !good)
			}
		}
	}
}

// TestKernels: a line for each kernel becomes lines that name it; a broken one is an error.
func TestKernels(t *testing.T) {
	const result = `{"kernel":"6.1.0-40-cloud-amd64","defences":[{"defence":"kernel","capacity":{"median_pps":400000},"at_max":{"offered_pps":1e6},"points":[{"offered_pps":1e6,"success":0.5}]}]}` + "\n"
	f, err := kernelsFinding([]byte("6.1.0-40 kvm " + result))
	if err != nil {
		t.Fatal(err)
	}
	if !verdict(t, f, "Linux 6.1.0-40-cloud-amd64: Linux with cookies") || len(f.Plots[0].Curves) != 1 {
		t.Errorf("%+v", f)
	}
	if f, err = kernelsFinding([]byte("6.1.0-40 tcg " + result)); err != nil || f.Lines[0].Agrees != nil || strings.HasPrefix(f.Lines[0].Reason, "nothing") {
		t.Errorf("an emulated processor has a verdict: %+v, %v", f, err)
	}
	slow := strings.Replace(result, `"points":[`, `"points":[{"offered_pps":0,"success":0.2},`, 1)
	if f, err = kernelsFinding([]byte("6.1.0-40 kvm " + slow)); err != nil || len(f.Lines) != 3 || f.Lines[1].Agrees != nil || !strings.HasPrefix(f.Lines[1].Reason, "nothing") {
		t.Errorf("clients were not served without a flood: %+v, %v", f, err)
	}
	// On a processor that counts its instructions the kernel without cookies is judged, whose limit is the backlog; a rate is not.
	for name, judged := range map[string]bool{"none": true, "kernel": false} {
		one := strings.NewReplacer(`"defence":"kernel"`, `"defence":"`+name+`"`, "400000", "0").Replace(result)
		if f, err = kernelsFinding([]byte("6.1.0-40 counted " + one)); err != nil || (f.Lines[0].Agrees != nil) != judged {
			t.Errorf("%s on a counted processor: %+v, %v", name, f.Lines, err)
		}
	}
	if _, err := kernelsFinding([]byte("6.1 kvm {\n")); err == nil || !strings.Contains(err.Error(), "6.1") {
		t.Errorf("a broken line: %v", err)
	}
}

// TestAsked: what takes other kernels is run only where it is named; each unit says how long it takes.
func TestAsked(t *testing.T) {
	var asked []string
	for _, c := range Chapters() {
		for _, u := range c.Units {
			for _, o := range []Options{{}, {Chapters: []string{c.Name}}} {
				if o.chosen(c, u) == u.Asked {
					t.Errorf("%s/%s with %v: chosen %v", c.Name, u.Name, o.Chapters, u.Asked)
				}
			}
			if o := (Options{Chapters: []string{c.Name + "/" + u.Name}}); !o.chosen(c, u) {
				t.Errorf("%s/%s is not run although it is named", c.Name, u.Name)
			}
			if u.Asked {
				asked = append(asked, c.Name+"/"+u.Name)
			}
			if u.Takes == 0 && u.Name != "variants" {
				t.Errorf("%s/%s does not say how long it takes", c.Name, u.Name)
			}
		}
	}
	if !slices.Equal(asked, []string{"melove/kernels"}) {
		t.Errorf("only where they are named: %q", asked)
	}
}

// TestPlots: bars, dashed lines and an axis of nines are drawn.
func TestPlots(t *testing.T) {
	name := filepath.Join(t.TempDir(), "plot.svg")
	for _, c := range []struct {
		plot Plot
		want []string
	}{
		{Plot{Title: "bars", Y: "y", Bars: []Bar{{"first bar", 1}, {"second bar", 2}}, Lines: []Mark{{"the goal", 14, true}}}, []string{"first bar", "second bar", "the goal"}},
		{Plot{Title: "nines", X: "x", Y: "y", LogX: true, LogY: true, Nines: true, Curves: []Curve{{"c", []float64{2, 10, 100_000}, []float64{1, 10, 1000}}}}, []string{"90 %", "99.999 %", ">1000<"}},
		{Plot{Title: "nothing", Lines: []Mark{{"the goal", 14, true}}}, []string{"nothing"}},
		{Plot{Title: "line", X: "x", Y: "y", LogX: true, Curves: []Curve{{"c", []float64{1000, 10_000}, []float64{1, 2}}}, Lines: []Mark{{"far right", 1e7, false}}}, []string{"far right", ">1e+07<"}},
	} {
		if err := c.plot.write(name); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.plot.Title == "bars" {
			highest := 0.0
			for _, m := range regexp.MustCompile(`>([0-9.]+)</text>`).FindAllStringSubmatch(string(text), -1) {
				v, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				highest = max(highest, v)
			}
			if highest <= 2 {
				t.Errorf("the axis ends at %g, below the dashed line", highest)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the picture lacks %q", c.plot.Title, want)
			}
		}
	}
}
