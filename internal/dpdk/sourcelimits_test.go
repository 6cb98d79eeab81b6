// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/plane"
)

func TestParseOverLimit(t *testing.T) {
	const four = "1030 4 0a4d070000000000 24 c6120001000000000000000000000000 12 3 5000 20"
	const six = "7 6 fd7d007700000100 56 fd7d7467000100000000000000000002 1 0 10 10"
	const now = int64(time.Hour)
	slot, o, err := parseOverLimit(four, now)
	want := plane.OverLimit{Prefix: netip.MustParsePrefix("10.77.7.0/24"), Dst: netip.MustParseAddr("198.18.0.1"), Over: 12, Held: 3,
		FirstNs: now - int64(5*time.Second), LastNs: now - int64(20*time.Millisecond)}
	if err != nil || slot != 1030 || o != want {
		t.Errorf("%d %+v %v", slot, o, err)
	}
	if slot, o, err := parseOverLimit(six, now); err != nil || slot != 7 || o.Prefix != netip.MustParsePrefix("fd7d:77:0:100::/56") || o.Dst != netip.MustParseAddr("fd7d:7467:1::2") {
		t.Errorf("%d %+v %v", slot, o, err)
	}
	for _, bad := range []string{"", "1 2 3", four + " 9", strings.Replace(four, " 4 ", " 5 ", 1), strings.Replace(four, " 24 ", " 33 ", 1),
		strings.Replace(four, "0a4d", "xx4d", 1), strings.Replace(four, " 12 ", " -12 ", 1), strings.Replace(four, "c612", "c61", 1)} {
		if _, o, err := parseOverLimit(bad, now); err == nil {
			t.Errorf("%q: %+v", bad, o)
		}
	}
}

func TestLimitsLine(t *testing.T) {
	if got := LimitsLine(&plane.Settings{LimitV4: 24, LimitHeld: 7}); got != "source-limits 0 0 32 64 0" {
		t.Errorf("none: %s", got)
	}
	if got := LimitsLine(&plane.Settings{SourceLimited: 1, LimitCostNs: 50, LimitHeld: 7, LimitV4: 24, LimitV6: 56, LimitAction: 2}); got != "source-limits 50 7 24 56 2" {
		t.Error(got)
	}
}
