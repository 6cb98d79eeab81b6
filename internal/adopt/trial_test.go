// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"log/slog"
	"strings"
	"testing"
)

// A trial that hardly anybody has seen does not claim to have passed.
func TestConclusionOfTrial(t *testing.T) {
	for _, c := range []struct {
		seen   seen
		passed bool
	}{
		{seen{}, false}, {seen{sent: 19}, false}, {seen{sent: 2, adopted: 2, connected: 2}, false},
		{seen{sent: 3, adopted: 3, connected: 3}, true}, {seen{sent: 3, adopted: 1, opened: 2, connected: 3, ready: 2}, true},
	} {
		level, words := c.seen.conclusion()
		if passed := strings.Contains(words, "passed"); passed != c.passed || passed != (level == slog.LevelInfo) || c.seen.problem() != "" {
			t.Errorf("%+v: %s %q, problem %q", c.seen, level, words, c.seen.problem())
		}
	}
}
