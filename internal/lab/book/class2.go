// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tidegate/internal/device"
)

func class2() Chapter {
	const layout = "a list of parameters"
	return Chapter{Name: "class2", Title: "An experimental study on the applicability of SYN cookies to networked constrained devices",
		Items: []Item{
			{Name: "tables 1 to 3", What: layout, Not: "nothing to measure; lwip/layouts/ has the three layouts"},
			{Name: "figure 1", What: "a drawing of a listening socket", Not: "nothing to measure"},
			{Name: "table 4", What: "throughput of three cookies under 200 SYN/s", Unit: "tables",
				Not: "the LPC1768: a Cortex-M3 in QEMU that counts instructions instead of cycles"},
			{Name: "table 5", What: "recycling with queues of 2 to 16 against cookies", Unit: "tables", Not: "as table 4"},
		},
		// The device counts its own instructions: results depend on the firmware, not on this machine nor on the programs.
		Units: []Unit{{Name: "tables", Run: class2Tables, Takes: 45 * time.Minute,
			Derive: func(data json.RawMessage) (*Finding, error) {
				t := &device.Tables{}
				if err := json.Unmarshal(data, t); err != nil {
					return nil, err
				}
				return tablesFinding(t), nil
			},
			Tree: func(ctx context.Context, s Setting) (string, error) { return device.Identity(ctx, class2Options(s)) }}}}
}

func class2Options(s Setting) device.Options {
	o := device.DefaultOptions()
	o.Tables, o.Samples, o.Parallel, o.Progress = true, 30, 2, s.Progress // the study's samples and seconds
	if s.Smallest {
		o.Samples, o.Seconds = 2, 1
	}
	if s.Seconds > 0 {
		o.Seconds = min(s.Seconds, 600)
	}
	return o
}

func class2Tables(ctx context.Context, s Setting) (*Finding, error) {
	o := class2Options(s)
	if s.Dir != "" {
		if err := os.MkdirAll(s.Dir, 0o755); err != nil {
			return nil, err
		}
		o.Journal = filepath.Join(s.Dir, "class2-samples.jsonl")
	}
	t, err := device.RunTables(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Journal != "" { // the result has every sample
		if err := os.Remove(o.Journal); err != nil {
			return nil, err
		}
	}
	return tablesFinding(t), nil
}

func tablesFinding(t *device.Tables) *Finding {
	f := &Finding{Data: t}
	add := func(item, what string, r device.Row, paper string) {
		f.Lines = append(f.Lines, beside(item, what, describe(r.Throughput), paper, "another processor, network and TCP stack: compare the order"))
	}
	add("table 4", "no attack", t.NoAttack, "33.72 Mb/s (0.045)")
	four, five := map[string]float64{}, map[int]float64{}
	paper4 := map[string]string{device.LayoutFreeBSD: "31.94 Mb/s (0.094)", device.LayoutLinuxSHA1: "31.67 Mb/s (0.073)", device.LayoutHybrid: "31.91 Mb/s (0.081)"}
	for _, r := range t.Table4 {
		four[r.Layout] = r.Throughput.Mean
		add("table 4", r.Layout, r, paper4[r.Layout])
	}
	free, linux, hybrid := four[device.LayoutFreeBSD], four[device.LayoutLinuxSHA1], four[device.LayoutHybrid]
	f.Lines = append(f.Lines,
		compare("table 4", "Linux's cookie costs more than FreeBSD's", fmt.Sprintf("%.3f < %.3f", linux, free), "31.67 < 31.94", linux < free, "the hash's share of a SYN differs"),
		compare("table 4", "Linux's cookie costs more than the hybrid", fmt.Sprintf("%.3f < %.3f", linux, hybrid), "31.67 < 31.91", linux < hybrid, "the hash's share of a SYN differs"))
	paper5 := map[int]string{2: "31.7557 (0.03126)", 4: "31.6113 (0.06307)", 8: "31.4400 (0.03778)", 16: "31.3297 (0.03891)"}
	for _, r := range t.Table5 {
		if r.Policy != device.PolicyRecycle {
			add("table 5", "cookies", r, "31.9107 (0.02924)")
			continue
		}
		five[r.Queue] = r.Throughput.Mean
		add("table 5", fmt.Sprintf("recycling, queue of %d", r.Queue), r, paper5[r.Queue])
	}
	falling := five[2] > five[4] && five[4] > five[8] && five[8] > five[16]
	f.Lines = append(f.Lines, compare("table 5", "the longer the queue, the less throughput", fmt.Sprintf("%.3f, %.3f, %.3f, %.3f", five[2], five[4], five[8], five[16]),
		"31.756, 31.611, 31.440, 31.330", falling, "the search of a queue is too small a share of a SYN's cost"))
	f.Lines = append(f.Lines, testLines(t)...)
	return f
}

// significant is the level of the study's tests.
const significant = 0.05

// testLines are the study's own tests: Student's t by pair of layouts, and the analysis of variance of table 5.
func testLines(t *device.Tables) (lines []Line) {
	paper := map[string]string{
		device.LayoutFreeBSD + device.LayoutLinuxSHA1: "t(58) = 12.43, d = 3.2: significant",
		device.LayoutFreeBSD + device.LayoutHybrid:    "t(58) = 1.32, d = 0.34: not significant",
		device.LayoutLinuxSHA1 + device.LayoutHybrid:  "t(58) = -12.06, d = -3.11: significant",
	}
	describe := func(c device.Comparison, p float64) string {
		return fmt.Sprintf("t(%.0f) = %.2f, p = %.2g, d = %.2f, 95 %% of the difference %.4f to %.4f", c.DF, c.T, p, c.D, c.Low, c.High)
	}
	for _, c := range t.Comparisons {
		if !c.Tested {
			continue
		}
		expected := c.A != device.LayoutFreeBSD || c.B != device.LayoutHybrid
		lines = append(lines, compare("table 4", c.A+" against "+c.B, describe(c, c.P), paper[c.A+c.B], (c.P < significant) == expected,
			"the hybrid hashes twice, FreeBSD's layout once; the study's deviations hide that, ours do not"))
	}
	if a := t.ANOVA; a != nil {
		lines = append(lines, compare("table 5", "analysis of variance", fmt.Sprintf("F(%.0f, %.0f) = %.1f, p = %.2g", a.DFBetween, a.DFWithin, a.F, a.P),
			"F(4, 145) = 938.966, p < 0.001", a.P < 0.001, "the rows do not differ by more than their samples"))
	}
	for _, c := range t.PostHoc {
		if c.Tested {
			lines = append(lines, compare("table 5", c.A+" against "+c.B+", corrected by Bonferroni", describe(c, c.PBonferroni), "significant", c.PBonferroni < significant,
				"the two differ by less than their samples"))
		}
	}
	return lines
}

// describe is a sample with its standard error and 95 % confidence bounds.
func describe(s device.Sample) string {
	se, low, high := bounds(s)
	return fmt.Sprintf("%.3f Mb/s (%.4f; standard error %.5f, 95 %% %.4f to %.4f, N %d)", s.Mean, s.SD, se, low, high, s.N)
}
