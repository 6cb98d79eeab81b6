// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/instance"
	"tidegate/internal/p4"
)

func TestConditions(t *testing.T) {
	now := time.Unix(1700000000, 0)
	fine := now.Add(2 * time.Hour)
	at := netip.MustParseAddrPort("198.51.100.1:80")
	counters := func(n uint64) []Service {
		return []Service{{Name: "web", Mode: "always", Listener: "ok", Counters: map[string]uint64{"flow_full": n}}}
	}
	w := Watcher{Horizon: 2 * time.Hour}
	for _, c := range []struct {
		of   string
		r    Reading
		want []string
	}{
		{"nothing", &Status{KeysUntil: fine, Services: counters(5)}, nil},
		{"a full table", &Status{KeysUntil: fine, Services: counters(6)}, []string{"table-full web flow_full"}},
		{"the same count", &Status{KeysUntil: fine, Services: counters(6)}, nil},
		{"no keys", &Status{KeysUntil: now.Add(59 * time.Minute)}, []string{"keys-stale  "}},
		{"listeners", &Status{KeysUntil: fine, Services: []Service{
			{Name: "none", Mode: "always", Listener: "none"}, {Name: "off", Mode: "off", Listener: "none"},
			{Name: "two", Mode: "always", Listener: "degraded", Degraded: []Degraded{{Listener: at, Reason: "mptcp"}, {Listener: at, Reason: "refused"}}}}},
			[]string{"no-listener none ", "mptcp-listener two ", "adoption-refused two "}},
		{"an edge", &Status{KeysUntil: fine, Edge: &Edge{Alarm: true}, OneSided: true, Unrouted: map[string]string{"IPv6": "VRF"}},
			[]string{"filter-saturated  ", "one-sided  ", "routes-unknown  IPv6"}},
		{"a dispatcher that is gone", &Status{KeysUntil: fine, Detached: map[string]string{"eth0": "because"}}, []string{"detached  eth0"}},
		{"a switch", &Status{KeysUntil: fine, P4: &P4{Figures: p4.Figures{Answers: false}}}, []string{"switch-silent  "}},
		{"patrols", &upstreamReading{Patrols: []instance.UpstreamPeer{{Name: "a", Up: true}, {Name: "b"}}, Figures: map[string]uint64{"filters": 7, "filters_max": 7}},
			[]string{"patrol-down  b", "table-full  filters"}},
	} {
		var got []string
		for _, l := range w.Look(c.r, now) {
			if l.Message == "" {
				t.Errorf("%s says nothing", l.Name)
			}
			got = append(got, fmt.Sprintf("%s %s %s", l.Name, l.Service, l.Subject))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.of, got, c.want)
		}
	}
	if got := (&Watcher{}).Look(&Status{KeysUntil: now.Add(time.Second)}, now); len(got) != 0 {
		t.Errorf("of a trial, whose keys are to end: %v", got)
	}
	var many []Degraded
	for range 100 {
		many = append(many, Degraded{Listener: at, Reason: "mptcp"})
	}
	long := w.Look(&Status{KeysUntil: fine, Services: []Service{{Name: "web", Mode: "always", Listener: "mptcp", Degraded: many}}}, now)
	if len(long) != 1 || !strings.HasSuffix(long[0].Detail["listeners"], "and 92 more") {
		t.Errorf("%+v", long)
	}
}
