// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"strings"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// SYNs with sources in one /24 are answered up to the limit; clients elsewhere notice nothing. The limit changes live.
func TestSynackLimit(t *testing.T) {
	const limit = 1000
	w := newWorld(t)
	w.echoServer(webPort)
	conf := w.webConfig(webPort)
	g := w.start(strings.Replace(conf, "services:", "synack_limit: 1000\nservices:", 1))
	began := time.Now()
	stop := w.synFlood(50_000)
	pings := 0
	w.await("30,000 SYNs", func() bool {
		if err := w.pingNew(true, webPort); err != nil {
			t.Fatalf("a client of another prefix: %v", err)
		}
		pings++
		return w.counters()["syn"] > 30_000
	})
	sent := stop()
	took := time.Since(began).Seconds()
	c := w.counters()
	// A bucket holds a tenth of a second, on each processor.
	if most := uint64(limit*(took+0.2)) + uint64(pings); c["cookie_sent"] > most || c["cookie_sent"] < most/8 {
		t.Errorf("%d of %d SYNs were answered in %.1f s, want at most %d: %v", c["cookie_sent"], sent, took, most, harness.NonZero(c))
	}
	if c["drop_reflected"] == 0 || c["syn"] != c["cookie_sent"]+c["drop_reflected"]+c["pass_neighbour"] {
		t.Errorf("%v", harness.NonZero(c))
	}
	g.Reload(conf, "msg=reloaded")
	before := w.counters()["drop_reflected"]
	for range 50 {
		if err := w.pingNew(false, webPort); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.counters()["drop_reflected"]; now != before {
		t.Errorf("%d SYNs were dropped without a limit", now-before)
	}
}
