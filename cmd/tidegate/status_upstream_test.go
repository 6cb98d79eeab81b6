// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

func TestPrintUpstreamStatus(t *testing.T) {
	var out bytes.Buffer
	err := printUpstreamStatus(&out, &instance.Upstream{Role: config.RoleBorderManager, Instance: "b", Running: true, Listen: "192.0.2.1:4747",
		Patrols: []instance.UpstreamPeer{{Name: "west", Address: "192.0.2.10:4748", Up: true}, {Name: "east", Address: "192.0.2.11:4748"}},
		Figures: map[string]uint64{"bindings": 3}, Counters: map[string]uint64{"verified": 5, "busy": 0}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"instance b (border-manager)", "listens at: 192.0.2.1:4747", "bindings  3", "west    192.0.2.10:4748  yes", "east    192.0.2.11:4748  NO", "verified  5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "busy") {
		t.Error("counters of nothing are shown")
	}
	out.Reset()
	_ = printUpstreamStatus(&out, &instance.Upstream{Role: config.RolePatrol, Instance: "p", Counters: map[string]uint64{"filter_blocked": 9}})
	if !strings.Contains(out.String(), "NOT running; programs and filters stay in force") || !strings.Contains(out.String(), "packets dropped by a filter") {
		t.Errorf("a patrol without its process:\n%s", out.String())
	}
}
