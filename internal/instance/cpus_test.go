// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-1,4,6-7": 5, "": 1, "none": 1, "0-x": 1} {
		if n := CountCPUs(list); n != want {
			t.Errorf("%q: %d, want %d", list, n, want)
		}
	}
}

// All processors together pass as many as configured, never more.
func TestSignedCost(t *testing.T) {
	for _, c := range []struct {
		what config.SignedSYNs
		rate int
		cpus int
		want uint32
	}{
		{config.SignedAnswer, 100, 2, plane.SignedAnswer},
		{config.SignedDrop, 100, 2, plane.SignedDrop},
		{config.SignedPass, 100, 1, 10_000},
		{config.SignedPass, 100, 8, 80_000},
		{config.SignedPass, 100_000, 1, 10},
		{config.SignedPass, 300, 1, 3334},
		{config.SignedPass, 1, 8192, plane.SignedDrop - 1},
	} {
		if got := SignedCost(&config.Service{SignedSYNs: c.what, SignedRate: c.rate}, c.cpus); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
