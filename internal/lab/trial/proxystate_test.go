// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"math"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/probe"

	"tidegate/test/world"
)

// The measured memory of one entry matches the figure of `tidegate check`.
func TestProxyState(t *testing.T) {
	world.NeedRoot(t)
	const share = 16 // of the buckets: 16 bytes each, one per entry of the maximum
	for _, c := range []struct {
		strategy config.Strategy
		ipv6     bool
		bytes    float64
	}{
		{config.StrategyCookie, false, probe.Flow4Bytes + share},
		{config.StrategyCookie, true, probe.Flow6Bytes + share},
		{config.StrategyAuthFull, false, probe.SourceBytes + share},
	} {
		o := DefaultOptions()
		o.Defence, o.Rate, o.Load, o.Duration, o.Server, o.Exe = defences.ProxyPrefix+string(c.strategy), 20000, 200, time.Second, load.ServerBuiltin, tidegate
		o.IPv6, o.Retries, o.Clients = c.ipv6, 1, 40
		r, err := runUndisturbed(t, o)
		if err != nil {
			t.Fatalf("%s: %v", c.strategy, err)
		}
		if r.Success != 1 || r.ServerSynRecv > 50 {
			t.Errorf("%s: %+v, want every request served and no flood at the server", c.strategy, *r)
		}
		if r.ProxyState == nil {
			t.Fatalf("%s: nothing is said of its state", c.strategy)
		}
		if c.strategy == config.StrategyAuthFull && r.Flows != o.Clients {
			t.Errorf("%s: %d sources, want %d", c.strategy, r.Flows, o.Clients)
		}
		if r.Flows < heldConns || math.Abs(r.BytesPerFlow-c.bytes) > c.bytes/10 {
			t.Errorf("%s: %d entries of %.1f bytes, want %d at least, of about %.0f", c.strategy, r.Flows, r.BytesPerFlow, heldConns, c.bytes)
		}
	}
}
