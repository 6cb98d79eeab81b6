// SPDX-License-Identifier: Apache-2.0

package book

import (
	"strings"
	"testing"

	"tidegate/test/world"
)

// TestSmallest runs units of each chapter as --smallest does. The others take longer, or packages (QEMU, DPDK) or processes of
// tidegate-lab itself that a test has not; TestVerdicts has what they make of their results.
func TestSmallest(t *testing.T) {
	world.NeedRoot(t)
	for _, u := range []struct {
		name  string
		lines int
		plots int
	}{{"lemon/connect", 2, 1}, {"lemon/list", 5, 1}, {"melove/strategies", 15, 0}, {"melove/profile", 12, 1}, {"smartcookie/variants", 5, 0},
		{"terminus/combined", 12, 1}, {"terminus/paths", 2, 1}} {
		out := t.TempDir()
		all, err := Run(t.Context(), Options{Setting: Setting{Smallest: true, Exe: tidegate, Progress: t.Logf}, Chapters: []string{u.name}, Out: out, Tree: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || all[0].Finding == nil || len(all[0].Lines) != u.lines || len(all[0].Plots) != u.plots {
			t.Fatalf("%s: want %d lines and %d plots: %+v", u.name, u.lines, u.plots, all[0].Finding)
		}
		for _, l := range all[0].Lines {
			if strings.Contains(l.Ours, "not counted") {
				t.Errorf("%s: %+v", u.name, l)
			}
			if l.Agrees != nil {
				t.Errorf("%s has a verdict: %+v", u.name, l)
			}
		}
	}
}
