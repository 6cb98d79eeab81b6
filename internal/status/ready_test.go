// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/instance"
)

func TestReady(t *testing.T) {
	now := time.Now()
	with := func(change func(*Status)) *Status {
		st := &Status{Instance: "x", Running: true, KeysUntil: now.Add(time.Hour), Services: []Service{{Name: "web", Mode: "always"}, {Name: "mail", Mode: "monitor"}}}
		change(st)
		return st
	}
	for want, st := range map[string]*Status{
		"protecting web":         with(func(*Status) {}),
		"protecting web, mail":   with(func(st *Status) { st.Services[1].Mode = "auto" }),
		"monitoring web, mail; ": with(func(st *Status) { st.Services[0].Mode = "monitor" }),
	} {
		if got, err := st.Ready(now); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	for want, st := range map[string]*Status{
		"no process":       with(func(st *Status) { st.Running = false }),
		"being started":    with(func(st *Status) { st.Starting = true }),
		"taken down":       with(func(st *Status) { st.Draining = true }),
		"keys":             with(func(st *Status) { st.KeysUntil = now }),
		"mode off":         with(func(st *Status) { st.Services[0].Mode, st.Services[1].Mode = "off", "off" }),
		"does not answer":  with(func(st *Status) { st.P4 = &P4{} }),
		"web of instance ": with(func(st *Status) { st.Services[0].Degraded = []Degraded{{}} }),
	} {
		if got, err := st.Ready(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := UpstreamReady(&instance.Upstream{}); err == nil {
		t.Error("a manager that does not run is ready")
	}
	if _, err := UpstreamReady(&instance.Upstream{Running: true, Starting: true}); err == nil {
		t.Error("a manager that is being started is ready")
	}
}
