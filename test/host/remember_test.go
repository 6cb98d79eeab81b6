// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"strings"
	"testing"
)

// With remember_sources, `why` says what handshakes a source has completed lately, and of others that there are none; without, nothing.
func TestWhyRemembers(t *testing.T) {
	for _, takeover := range []string{"adopt", "translate"} {
		t.Run(takeover, func(t *testing.T) {
			w := newSourceWorld(t)
			why := func(src string) string {
				t.Helper()
				out, errs, err := w.tidegateRun("why", src, fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
				if err != nil {
					t.Fatal(err, errs)
				}
				return out
			}
			w.start(w.webConfig(webPort, "takeover: "+takeover, "remember_sources: yes"))
			const n = 5
			for range n {
				w.dial(sourceAddr(7))
			}
			w.await("the connections", func() bool { return w.servedTo(sourceAddr(7)) == n })
			if out := why("10.77.0.7"); !strings.Contains(out, fmt.Sprintf("%d handshakes with %s since ", n, w.ServerAddr(false))) {
				t.Error(out)
			}
			if out := why("10.77.0.8"); !strings.Contains(out, "no handshake of this source is remembered") {
				t.Error(out)
			}
			w.off("--now")
			w.start(w.webConfig(webPort, "takeover: "+takeover))
			w.dial(sourceAddr(7))
			if out := why("10.77.0.7"); strings.Contains(out, "lately") {
				t.Error(out)
			}
		})
	}
}
