// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// A proxy's secret is replaced by SIGHUP while clients come: none is lost.
func TestSecretRoll(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	next := filepath.Join(w.dir, "next")
	if err := os.WriteFile(next, []byte(strings.Repeat("c3", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.start(w.config("cookie", "epoch: 1s"))
	from := keys.EpochStart(keys.Epoch(time.Now(), time.Second)+3, time.Second)
	w.writeConfig(w.config("cookie", "epoch: 1s", "next_secret_file: next",
		fmt.Sprintf("next_secret_from: %s", from.UTC().Format(time.RFC3339Nano))))
	b.Reread("msg=reloaded")
	rolls := keys.Epoch(from, time.Second)
	if testPlane != rig.PlaneDPDK { // whose keys cannot be read
		harness.WantKey(t, w.Instance, filepath.Join(w.dir, "secret"), rolls-1)
		harness.WantKey(t, w.Instance, next, rolls)
	}
	for n := 0; keys.Epoch(time.Now(), time.Second) < rolls+2; n++ {
		if err := w.ping(false); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "cookie_stale": 0})
}
