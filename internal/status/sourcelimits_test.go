// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
)

// A source is named when it begins to exceed its limit, with its rate, and not again while it goes on; many at once are one event.
func TestOffenders(t *testing.T) {
	begin := time.Unix(1000, 0)
	limits := func(over map[string]uint64) *SourceLimits {
		l := &SourceLimits{SourceLimits: config.SourceLimits{NewPerSecond: 100, Action: config.LimitDrop}}
		for i := range 300 { // in a fixed order
			p := fmt.Sprintf("10.0.%d.%d/32", i/100, i%100)
			if n := over[p]; n > 0 {
				l.all = append(l.all, OverLimit{Prefix: netip.MustParsePrefix(p), Over: n})
			}
		}
		return l
	}
	o := offenders{looked: begin.Add(-time.Second)}
	for i, c := range []struct {
		at   time.Duration
		over map[string]uint64
		want string
	}{
		{0, map[string]uint64{}, ""},
		{2 * time.Second, map[string]uint64{"10.0.0.2/32": 40}, "10.0.0.2/32 (20/s)"},
		{3 * time.Second, map[string]uint64{"10.0.0.1/32": 10, "10.0.0.2/32": 90}, ""}, // an event a moment ago
		{4 * time.Second, map[string]uint64{"10.0.0.1/32": 15, "10.0.0.2/32": 90}, ""},
		{11 * time.Second, map[string]uint64{"10.0.0.1/32": 15, "10.0.0.2/32": 90}, ""},
		{12 * time.Second, map[string]uint64{"10.0.0.1/32": 15, "10.0.0.2/32": 95}, "10.0.0.1/32 (5/s)"},
		{100 * time.Second, map[string]uint64{"10.0.0.1/32": 15, "10.0.0.2/32": 995}, ""},                   // it goes on
		{500 * time.Second, map[string]uint64{"10.0.0.1/32": 15, "10.0.0.2/32": 1395}, "10.0.0.2/32 (1/s)"}, // after a pause
		{502 * time.Second, map[string]uint64{"10.0.0.2/32": 3}, ""},                                        // its slot was another's for a while
		{511 * time.Second, nil, ""},
	} {
		detail, due := o.look(limits(c.over), begin.Add(c.at))
		if got := detail["above_limit"]; got != c.want || due != (c.want != "") {
			t.Errorf("look %d: %q (%v), want %q", i, got, due, c.want)
		}
	}
	many := map[string]uint64{}
	for i := range 250 {
		many[fmt.Sprintf("10.0.%d.%d/32", i/100, i%100)] = 7
	}
	detail, due := o.look(limits(many), begin.Add(600*time.Second))
	if !due || strings.Count(detail["above_limit"], "/32") != offendersNamed || detail["more"] != fmt.Sprint(250-offendersNamed) || detail["limit_per_second"] != "100" || detail["action"] != "drop" {
		t.Errorf("%v", detail)
	}
	if _, due := o.look(nil, begin.Add(601*time.Second)); due {
		t.Error("an event without limits")
	}
	if detail, due := o.look(limits(many), begin.Add(700*time.Second)); due { // limits were off in between
		t.Errorf("what was named before is news again: %v", detail)
	}
}
