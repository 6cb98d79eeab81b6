// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"testing"

	"tidegate/test/world"
)

// Every answered SYN becomes a connection, step by step, and ends: the set-up figures
// measure that, and not something that failed before. No figure
// of time is judged.
func TestSetupsAreWhole(t *testing.T) {
	world.NeedRoot(t)
	res, err := runProxyParts(t.Context(), Options{Rounds: 1, Frames: 20_000, Bursts: 1}, proxyParts[slices.Index(ProxyParts(), "setup"):][:1])
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range setupShapes {
		s := *shape.of(res)
		t.Logf("%s: %.0f a second, with defer_accept %.0f, steps %v, reached %v, limited by %s and %s", shape.name, s.PerSecond.Median,
			s.PerSecondDeferred.Median, s.StepNs, s.Reached, s.Limit, s.LimitDeferred)
		for _, step := range setupSteps {
			// A ring of a veth has 256 places and may overflow now and then.
			if share := s.Reached[step.name]; share < 0.5 || share > 1 {
				t.Errorf("%s: %.3f of the SYNs came to step %s", shape.name, share, step.name)
			}
		}
		if s.PerSecond.Median <= 0 || s.PerSecondDeferred.Median <= 0 || s.Limit == "" || s.LimitDeferred == "" {
			t.Errorf("%s: %+v", shape.name, s)
		}
	}
}
