// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"tidegate/internal/lab/terminus"
	"tidegate/test/world"
)

// TestScenarios: every scenario has the paper's result.
func TestScenarios(t *testing.T) { scenarios(t, 11) }

// TestScenariosIPv6: so does the one with most messages; `make soak` runs all.
func TestScenariosIPv6(t *testing.T) {
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		t.Skip("this kernel has no IPv6")
	}
	scenarios(t, 1, "--ipv6", "--topology", "fig3")
}

func scenarios(t *testing.T, want int, args ...string) {
	t.Helper()
	needRoot(t)
	cmd := exec.Command(world.BuildLab(t, binary), append([]string{"terminus", "--json"}, args...)...)
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	err := cmd.Run()
	var rows []terminus.Row
	if jsonErr := json.Unmarshal(out.Bytes(), &rows); jsonErr != nil {
		t.Fatalf("%v, %v: %s", err, jsonErr, progress.String())
	}
	for _, r := range rows {
		if !r.OK {
			t.Errorf("%s: expected %q, observed %q (legitimate %.3f)", r.Scenario, r.Expected, r.Observed, r.LegitSuccess)
		}
		t.Logf("%s: %s (filtered after %.2f s, legitimate %.3f)", r.Scenario, r.Observed, r.FilteredAfterS, r.LegitSuccess)
	}
	if len(rows) != want {
		t.Errorf("%d scenarios, want %d", len(rows), want)
	}
	if err != nil {
		t.Error(err)
	}
}
