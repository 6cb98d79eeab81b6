package terminus

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"tidegate/internal/lab"
)

// TestScenarios: every scenario of the paper ends as the paper says.
func TestScenarios(t *testing.T) {
	needRoot(t)
	cmd := exec.Command(binary, "lab", "terminus", "--json")
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	err := cmd.Run()
	var rows []lab.TerminusRow
	if jsonErr := json.Unmarshal(out.Bytes(), &rows); jsonErr != nil {
		t.Fatalf("%v, %v: %s", err, jsonErr, progress.String())
	}
	for _, r := range rows {
		if !r.OK {
			t.Errorf("%s: expected %q, observed %q (legitimate %.3f)", r.Scenario, r.Expected, r.Observed, r.LegitSuccess)
		}
		t.Logf("%s: %s (filtered after %.2f s, legitimate %.3f)", r.Scenario, r.Observed, r.FilteredAfterS, r.LegitSuccess)
	}
	if len(rows) != 11 {
		t.Errorf("%d scenarios, want 11", len(rows))
	}
	if err != nil {
		t.Error(err)
	}
}
