// SPDX-License-Identifier: Apache-2.0

package book

import (
	"strings"
	"testing"

	"tidegate/test/world"
)

// TestSmallest runs one unit of two chapters as --smallest does. Those of the other chapters take longer, or packages
// (QEMU) or processes of tidegate-lab itself that a test has not.
func TestSmallest(t *testing.T) {
	world.NeedRoot(t)
	for _, u := range []struct {
		name  string
		lines int
	}{{"lemon/connect", 2}, {"melove/strategies", 15}} {
		name := u.name
		all, err := Run(t.Context(), Options{Setting: Setting{Smallest: true, Exe: tidegate, Progress: t.Logf}, Chapters: []string{name}, Out: t.TempDir(), Tree: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || all[0].Finding == nil || len(all[0].Lines) != u.lines {
			t.Fatalf("%s: %+v", name, all)
		}
		for _, l := range all[0].Lines {
			if strings.Contains(l.Ours, "not counted") {
				t.Errorf("%s: %+v", name, l)
			}
			if l.Agrees != nil {
				t.Errorf("%s has a verdict: %+v", name, l)
			}
		}
	}
}
