// SPDX-License-Identifier: Apache-2.0

package plane

import "testing"

func TestMonotonicOffset(t *testing.T) {
	for offsets, want := range map[string]int64{
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic      864000        17\nboottime            5         0\n": 864000e9 + 17,
		"boottime            5         0\nmonotonic          -3 999999999\n": -2_000_000_001,
		"":                             0,
		"monotonic":                    0,
		"monotonic x 0\n":              0,
		"monotonic-raw 1 0\ntai 2 0\n": 0,
	} {
		if got := monotonicOffsetNs(offsets); got != want {
			t.Errorf("%q: %d ns, want %d", offsets, got, want)
		}
	}
}
