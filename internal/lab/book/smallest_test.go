// SPDX-License-Identifier: Apache-2.0

package book

import (
	"testing"

	"tidegate/test/world"
)

// TestSmallest runs one unit of a chapter as --smallest does. Those of the other chapters take longer, or packages
// (QEMU) or processes of tidegate-lab itself that a test has not.
func TestSmallest(t *testing.T) {
	world.NeedRoot(t)
	for _, name := range []string{"lemon"} {
		all, err := Run(t.Context(), Options{Setting: Setting{Smallest: true, Exe: tidegate, Progress: t.Logf}, Chapters: []string{name}, Out: t.TempDir(), Tree: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || all[0].Finding == nil || len(all[0].Lines) != 2 {
			t.Fatalf("%s: %+v", name, all)
		}
		for _, l := range all[0].Lines {
			if l.Agrees != nil {
				t.Errorf("%s has a verdict: %+v", name, l)
			}
		}
	}
}
