// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
	"tidegate/internal/lab/sampler"
)

// meLoveProfile is figure 2: what the victim's processor does, group by group.
func meLoveProfile(ctx context.Context, s Setting) (*Finding, error) {
	o := searchOptions(s, 100, []string{defences.None, defences.Kernel, defences.Host})
	o.Base.Duration = s.duration(5 * time.Second)
	rates := []load.Rate{20_000, load.RateMax}
	if s.Smallest {
		o.Defences, rates = o.Defences[1:2], rates[:1]
	}
	all, err := overload.Profile(ctx, o, rates...)
	if err != nil {
		return nil, err
	}
	return profileFinding(all), nil
}

// stackGroups are those that the paper names as the usual cost of Linux's network stack.
func stackGroups() []string {
	return []string{sampler.GroupMemory, sampler.GroupDevice, sampler.GroupIP, sampler.GroupTCP}
}

func profileFinding(all []overload.Profiled) *Finding {
	f := &Finding{Data: all}
	for _, x := range all {
		where := fmt.Sprintf("%s at %.0f SYN/s", x.Defence, x.Point.Offered)
		bars := Plot{Title: fmt.Sprintf("Me Love, figure 2: the victim's processor, %s", where), Y: "% of the time"}
		for _, g := range sampler.Groups() {
			share := 100 * x.Profile.Groups[g]
			bars.Bars = append(bars.Bars, Bar{g, share})
			ours := fmt.Sprintf("%.1f %% of the time", share)
			if g != sampler.GroupIdle {
				ours += fmt.Sprintf(", %.1f %% of the time at work", 100*x.Profile.OfWork(g))
			}
			f.Lines = append(f.Lines, beside("figure 2", where+": "+g, ours, paperGroups(x.Defence)[g], "a bar in the paper, or none"))
		}
		f.Plots = append(f.Plots, bars)
		f.Lines = append(f.Lines, profileVerdicts(x, where)...)
	}
	return f
}

// paperGroups are the shares that the paper states in words.
func paperGroups(defence string) map[string]string {
	if defence != defences.Kernel {
		return nil
	}
	return map[string]string{sampler.GroupHash: "2.5 % (SipHash, Linux 4.19), up to 15 % (SHA-1, 4.9)"}
}

func profileVerdicts(x overload.Profiled, where string) []Line {
	idle := 100 * x.Profile.Groups[sampler.GroupIdle]
	stack := 0.0
	for _, g := range stackGroups() {
		stack += 100 * x.Profile.OfWork(g)
	}
	hash := 100 * x.Profile.OfWork(sampler.GroupHash)
	switch {
	case x.Defence == defences.None && x.Point.Offered < 100_000:
		return []Line{compare("figure 2", where+": the processor is not exhausted", fmt.Sprintf("%.0f %% idle, %.1f %% of requests served", idle, 100*x.Point.Success),
			"without cookies the backlog is the limit, not the processor (figure 2a)", idle >= 20, "this machine receives fewer frames in a second")}
	case x.Defence != defences.Kernel:
		return nil
	}
	lines := []Line{
		compare("figure 2", where+": the hash is a small part", fmt.Sprintf("%.1f %% of the time at work", hash), "2.5 % with SipHash", hash <= 5, "everything else has become cheaper than the hash"),
		compare("figure 2", where+": most goes into skb/mem, driver/dev, ip/inet and tcp", fmt.Sprintf("%.0f %% of the time at work", stack), "the majority", stack > 50,
			"our groups are made of other functions than the paper's"),
	}
	if x.Point.Offered >= 400_000 {
		lines = append(lines, compare("figure 2", where+": the processor is the limit", fmt.Sprintf("%.0f %% idle", idle), "CPU utilization is the limiting factor (figure 2b, c)", idle < 10, "the generator is the limit here"))
	}
	return lines
}
