// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"testing"
	"time"
)

// An auth strategy with the IPv4 whitelist as a bitmap, of networks and of all
// addresses (1 GiB): a source is reset once, then forwarded; kept while in use, then forgotten.
func TestWhitelistBitmap(t *testing.T) {
	for prefix, period := range map[string]string{"24": "1s", "32": "24h"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config("auth-cookie", "whitelist_v4: bitmap", "source_prefix_v4: "+prefix, "swap_period: "+period))
			reset := func() {
				t.Helper()
				if err := w.ping(false); !wasReset(err) {
					t.Fatalf("a source that is not on the list got %v, want a reset", err)
				}
			}
			reset()
			for range 3 {
				if err := w.ping(false); err != nil {
					t.Fatal(err)
				}
			}
			w.wantCounters(map[string]uint64{"white_added": 1, "forward_white": 3, "white_full": 0})
			if period != "1s" {
				return
			}
			for range 12 { // in use over several periods
				time.Sleep(250 * time.Millisecond) // only time makes a source old
				if err := w.ping(false); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(4*time.Second + 200*time.Millisecond) // the bitmap is swept gradually, which no event reports
			reset()
		})
	}
}
