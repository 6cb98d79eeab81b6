// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/routers"
)

// Anycast follows what only this machine can cause, and nothing that packets can.
func TestCanProtect(t *testing.T) {
	now := time.Now()
	with := func(change func(*Status)) *Status {
		st := &Status{Running: true, KeysUntil: now.Add(time.Hour), Services: []Service{{Name: "web", Mode: "always"}}}
		change(st)
		return st
	}
	for want, st := range map[string]*Status{
		"":                 with(func(*Status) {}),
		" ":                with(func(st *Status) { st.Services[0].Degraded = []Degraded{{}} }), // listeners: an attacker may cause it
		"  ":               with(func(st *Status) { st.Edge = &Edge{Alarm: true} }),
		"taken down":       with(func(st *Status) { st.Draining = true }),
		"keys have ended":  with(func(st *Status) { st.KeysUntil = now }),
		"switch":           with(func(st *Status) { st.P4 = &P4{} }),
		"attached to eth0": with(func(st *Status) { st.Detached = map[string]string{"eth0": "gone"} }),
	} {
		able := strings.TrimSpace(want) == ""
		if ok, why := st.CanProtect(now); ok != able || !strings.Contains(why, strings.TrimSpace(want)) {
			t.Errorf("%q: %v, %q", want, ok, why)
		}
	}
}

func TestRoutersAreReported(t *testing.T) {
	st := &Status{Role: "edge", Instance: "a", Running: true, KeysUntil: time.Now().Add(time.Hour), Routers: &routers.State{Running: true, Refused: 3,
		Sessions: []routers.Session{{Address: netip.MustParseAddr("192.0.2.1"), Up: true, Flaps: 2}, {Address: netip.MustParseAddr("192.0.2.2")}},
		Routes:   []routers.Announcement{{Route: routers.Route{Kind: routers.Source}}, {Route: routers.Route{Kind: routers.Source}}},
		Service:  &routers.ServiceState{Why: "its keys have ended"}}}
	out := text(t, st)
	for _, want := range []string{`tidegate_bgp_session_up{peer="192.0.2.1"} 1`, `tidegate_bgp_session_up{peer="192.0.2.2"} 0`, `tidegate_bgp_session_flaps_total{peer="192.0.2.1"} 2`,
		`tidegate_bgp_routes{kind="source"} 2`, `tidegate_bgp_routes{kind="flow"} 0`, "tidegate_bgp_service_announced 0", "tidegate_bgp_offences_refused_total 3"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	conditions := func() (names string) {
		for _, c := range (&Watcher{}).Look(st, time.Now()) {
			names += c.Name + " " + c.Subject + ";"
		}
		return names
	}
	if got := conditions(); got != "bgp-down 192.0.2.2;service-withdrawn ;" {
		t.Errorf("conditions %q", got)
	}
	st.Routers.Running = false // the program has ended: one condition, whatever it said before
	if got := conditions(); got != "bgp-down ;service-withdrawn ;" {
		t.Errorf("conditions without the program %q", got)
	}
}
