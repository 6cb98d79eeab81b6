// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"

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
		Units: []Unit{{"tables", class2Tables}}}
}

func class2Tables(ctx context.Context, s Setting) (*Finding, error) {
	o := device.DefaultOptions()
	o.Tables, o.Samples, o.Progress = true, 30, s.Progress // the study's samples and seconds
	if s.Smallest {
		o.Samples, o.Seconds = 2, 1
	}
	if s.Seconds > 0 {
		o.Seconds = min(s.Seconds, 600)
	}
	t, err := device.RunTables(ctx, o)
	if err != nil {
		return nil, err
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
	return f
}

// describe is a sample with its standard error and 95 % confidence bounds.
func describe(s device.Sample) string {
	se, low, high := bounds(s)
	return fmt.Sprintf("%.3f Mb/s (%.4f; standard error %.5f, 95 %% %.4f to %.4f, N %d)", s.Mean, s.SD, se, low, high, s.N)
}
