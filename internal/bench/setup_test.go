package bench

import (
	"os"
	"testing"
)

// Every SYN that is answered becomes a connection, step by step, and ends: what is
// measured of set-ups is that, and not something that failed on the way. No figure
// of time is judged.
func TestSetupsAreWhole(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("this test needs root, and CI must run it as root")
		}
		t.Skip("needs root for network namespaces")
	}
	res, err := runProxyParts(t.Context(), Options{Rounds: 1, Frames: 20_000}, []part{{"set-ups", (*proxyBench).measureSetup}})
	if err != nil {
		t.Fatal(err)
	}
	s := res.Setup
	t.Logf("%.0f a second, steps %v, reached %v, limited by %s", s.PerSecond.Median, s.StepNs, s.Reached, s.Limit)
	for _, step := range setupSteps {
		// A ring of a veth has 256 places and may overflow now and then.
		if share := s.Reached[step.name]; share < 0.5 || share > 1 {
			t.Errorf("%.3f of the SYNs came to step %s", share, step.name)
		}
	}
	if s.PerSecond.Median <= 0 || s.Limit == "" {
		t.Errorf("%+v", s)
	}
}
