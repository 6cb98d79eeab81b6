// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"strings"
	"testing"

	"tidegate/internal/probe"
)

// Checks are the rows of `tidegate check`, by name.
type Checks map[string]probe.Check

// Check runs `tidegate check` of the configuration in the namespace. Its exit code must agree with its report.
func (i *Instance) Check() Checks {
	i.T.Helper()
	out, errs, err := i.Run("check", "-c", i.Config, "--json")
	var r probe.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		i.T.Fatalf("check: %v in %q; %s", err, out, errs)
	}
	if (err == nil) != r.OK {
		i.T.Errorf("check: the report says ok=%v, but the exit code is %v", r.OK, err)
	}
	rows := Checks{}
	for _, c := range r.Checks {
		rows[c.Name] = c
	}
	return rows
}

// Want reports a row with another status, or without the text.
func (rows Checks) Want(t *testing.T, name string, status probe.Status, text string) {
	t.Helper()
	c, there := rows[name]
	if !there || c.Status != status || !strings.Contains(c.Found+c.Means+c.Fix, text) {
		t.Errorf("%s: want %s and %q, got %+v (%v)", name, status, text, c, there)
	}
}
