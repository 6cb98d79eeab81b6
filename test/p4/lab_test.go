// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/split"
)

// TestSplitLab: the edge in front of the eBPF server role, both started as users start them,
// with real clients, a flood and keys that change every second: `tidegate-lab split --plane p4`.
func TestSplitLab(t *testing.T) {
	needRoot(t)
	tool(t, "P4C", "p4c-bm2-ss")
	tool(t, "SIMPLE_SWITCH", "simple_switch")
	tidegate := filepath.Join(t.TempDir(), "tidegate")
	if out, err := exec.Command("go", "build", "-o", tidegate, "tidegate/cmd/tidegate").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	for _, c := range [][2]string{{"plain", "adopt"}, {"tagged", "translate"}} {
		t.Run(c[0], func(t *testing.T) {
			o := split.DefaultOptions()
			o.Plane, o.Mode, o.Takeover, o.Exe, o.Server = "p4", c[0], c[1], tidegate, load.ServerBuiltin
			o.Epoch, o.Rate, o.Duration, o.Load, o.Clients = time.Second, 1000, 4*time.Second, 30, 10
			res, err := split.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if res.OK != res.Requests || res.Requests < 90 {
				t.Errorf("%d of %d requests were served: %v", res.OK, res.Requests, res.Errors)
			}
			if res.ServerAttackSYNs != 0 || res.ServerAttackPackets != 0 {
				t.Errorf("%d SYNs and %d packets of the flood came to the server", res.ServerAttackSYNs, res.ServerAttackPackets)
			}
			edge, server := res.EdgeCounters, res.ServerCounters
			good := edge["cookie_valid"] >= uint64(res.Requests) && edge["cookie_sent"] > 3000
			if c[0] == "tagged" {
				good = good && edge["tag_setup"] >= uint64(res.Requests) && edge["confirm_taken"] >= uint64(res.Requests) &&
					server["split_ready"] >= uint64(res.Requests) && server["tag_forged"] == 0
			}
			if !good {
				t.Errorf("edge %v, server %v", edge, server)
			}
			t.Logf("%d of %d requests; edge %v", res.OK, res.Requests, edge)
		})
	}
}
