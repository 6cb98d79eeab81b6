// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"slices"
	"testing"
	"time"
)

// The cost to a connection of the copy that proves an adoption (decision 50): rates of sequential connections
// with it (`auto`) and without (`adopt`), alternating in one run. TIDEGATE_MEASURE=1 runs it; it judges no time.
func TestCostOfProof(t *testing.T) {
	if os.Getenv("TIDEGATE_MEASURE") == "" {
		t.Skip("a measurement: TIDEGATE_MEASURE=1 runs it")
	}
	const turns, each = 15, 400
	w := newWorld(t)
	w.sysctl(w.Client, "net.ipv4.tcp_max_tw_buckets", "0")
	w.echoServer(webPort)
	var ns [2][]float64
	for range turns {
		for i, takeover := range []string{"adopt", "auto"} {
			g := w.start(w.webConfig(webPort, "takeover: "+takeover))
			w.mustPingNew(1)
			before, begin := w.counters()["adopted"], time.Now()
			for range each {
				w.must(w.pingNew(false, webPort))
			}
			ns[i] = append(ns[i], float64(time.Since(begin).Nanoseconds())/each)
			if n := w.counters()["adopted"] - before; n != each {
				t.Fatalf("%s: %d of %d adopted", takeover, n, each)
			}
			g.Interrupt()
		}
	}
	var more, ratio []float64
	for i := range turns {
		more = append(more, ns[1][i]-ns[0][i])
		ratio = append(ratio, ns[0][i]/ns[1][i])
	}
	for _, l := range [][]float64{more, ratio, ns[0], ns[1]} {
		slices.Sort(l)
	}
	t.Logf("a connection with one exchange: %.0f ns without, %.0f ns with; with proof %.0f ns more (quartiles %.0f to %.0f), %.3f of the rate (%.3f to %.3f)",
		ns[0][turns/2], ns[1][turns/2], more[turns/2], more[turns/4], more[3*turns/4], ratio[turns/2], ratio[turns/4], ratio[3*turns/4])
}
