// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/json"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	"tidegate/internal/why"
)

// `tidegate why` predicts for a SYN what the strategy does, and the SYN is not counted.
func TestWhy(t *testing.T) {
	for strategy, reason := range map[string]string{"cookie": "cookie_sent", "auth-full": "challenge_sent", "cache": "cache_kept"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config(strategy))
			out, errs, err := w.instance.Run("why", "--json", "--instance", w.Instance, w.clientAddr().String(), w.ServiceAddr(false, port).String())
			var a why.Answer
			if err == nil {
				err = json.Unmarshal([]byte(out), &a)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, errs)
			}
			if testPlane == rig.PlaneDPDK {
				if a.Verdict != "unknown" || !strings.Contains(out, strategy) {
					t.Errorf("under DPDK, where nothing can be rehearsed, it says %s", out)
				}
				return
			}
			if a.Verdict != "answered" || a.Reasons[reason] != 1 {
				t.Errorf("%+v, want answered for %s", a, reason)
			}
			if n := w.counters()["syn"]; n != 0 {
				t.Errorf("it was counted: %d SYNs", n)
			}
		})
	}
}
