// SPDX-License-Identifier: Apache-2.0

package split

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
	"tidegate/test/world"
)

func shortSplit() Options {
	o := DefaultOptions()
	o.Rate, o.Load, o.Duration, o.Exe, o.Options.Server, o.ResponseSize = 20000, 200, time.Second, tidegate, load.ServerBuiltin, 1024
	return o
}

// The experiments of `tidegate-lab split`: every client is served, and the server gets only the attack packets
// that it may get.
func TestSplit(t *testing.T) {
	world.NeedRoot(t)
	for _, c := range []struct {
		name   string
		change func(*Options)
		check  func(*Result) bool
	}{
		{"SYNs, layout smartcookie, server takeover auto", func(o *Options) { o.Layout, o.Takeover = "smartcookie", "auto" },
			func(r *Result) bool { return r.ServerAttackPackets == 0 && r.CookiesSent >= r.SYNSent }},
		{"ACKs at 7.66 % false positives", func(o *Options) {
			o.Attack, o.FilterFlows, o.UnknownRate = AttackACK, 579600, "0"
		}, func(r *Result) bool {
			// 40,000 packets: the standard deviation is 0.13 points
			return r.ServerAttackPackets > 0 && math.Abs(r.FPMeasured-r.FPComputed) < 0.008 && math.Abs(r.FPComputed-0.0766) < 0.003
		}},
		{"all segments, three edges at random, direct return, setup lost", func(o *Options) {
			o.Edges, o.Direct, o.Attack, o.UnknownRate, o.DropSetup = 3, true, AttackMixed, "all", 0.2
		}, func(r *Result) bool { return r.ServerAttackSYNs == 0 && r.SetupLost > 0 }},
		{"tagged: ACKs, RSTs and others, setup tags lost, edges in sync, routes that flap, clocks an epoch apart", func(o *Options) {
			o.Mode, o.Takeover, o.Attack, o.DropSetup = "tagged", "translate", AttackMixed, 0.2
			o.Edges, o.Direct, o.RouteFlap, o.Sync, o.UnknownRate = 2, true, true, true, "0"
			o.Epoch, o.Skew = 2*time.Second, 2*time.Second
		}, func(r *Result) bool {
			return r.ServerAttackPackets == 0 && r.SetupLost > 0 && r.ServerCounters["split_ready"] >= uint64(r.Requests) &&
				r.EdgeCounters["drop_rst"] > 0 && r.ServerCounters["tag_stale"] == 0
		}},
	} {
		o := shortSplit()
		c.change(&o)
		var r *Result
		var err error
		for range 5 {
			if r, err = Run(t.Context(), o); !errors.Is(err, trial.ErrDisturbed) {
				break
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.Success != 1 || !c.check(r) {
			t.Errorf("%s: %+v", c.name, *r)
		}
	}
}

func TestSplitOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--mode tagged: needs --server translate": func(o *Options) { o.Mode = "tagged" },
		"--server \"copy\": want one of":          func(o *Options) { o.Takeover = "copy" },
		"--layout smartcookie: needs --mode plain": func(o *Options) {
			o.Mode, o.Takeover, o.Layout = "tagged", "translate", "smartcookie"
		},
		"--sync: needs --mode tagged":      func(o *Options) { o.Sync = true },
		"--attack \"udp\": want one of":    func(o *Options) { o.Attack = "udp" },
		"--edges 9: want 1 to 8":           func(o *Options) { o.Edges = 9 },
		"--route-flap: needs --edges 2":    func(o *Options) { o.RouteFlap = true },
		"--return direct: needs --edges 2": func(o *Options) { o.Direct = true },
		"--drop-setup 1: want 0 to 0.9":    func(o *Options) { o.DropSetup = 1 },
		"--skew 2m0s: want -1m to 1m":      func(o *Options) { o.Skew = 2 * time.Minute },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
