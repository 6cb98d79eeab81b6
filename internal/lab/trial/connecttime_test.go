// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// Behind the proxy every connection is established; with a full listen queue, none is.
func TestConnectTimes(t *testing.T) {
	world.NeedRoot(t)
	o := DefaultConnectOptions()
	o.Connections, o.Curves = 60, []string{"kernel, backlog 128", "proxy-cookie"}
	o.Base.Load, o.Base.Timeout, o.Base.Server, o.Base.Exe = 100, 1500*time.Millisecond, load.ServerBuiltin, tidegate
	r, err := RunConnectTimes(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Curves) != 2 {
		t.Fatalf("%d curves, want 2", len(r.Curves))
	}
	none, proxy := r.Curves[0], r.Curves[1]
	if none.Connected > o.Connections/2 || none.P99 != nil || none.Backlog != 128 {
		t.Errorf("without a defence: %+v", none)
	}
	if proxy.Connected != o.Connections || proxy.Served != o.Connections || proxy.P99 == nil || len(proxy.Times) != o.Connections {
		t.Errorf("proxy: %+v", proxy)
	}
}

func TestConnectQuantiles(t *testing.T) {
	var c ConnectCurve
	c.Fill([]float64{700, 1, 2, 500, 3}, 10)
	if c.Connected != 5 || c.Within500 != 0.4 || *c.P10 != 1 || *c.P50 != 700 || c.P90 != nil || c.Times[4] != 700 {
		t.Errorf("%+v", c)
	}
	c = ConnectCurve{}
	if c.Fill(nil, 10); c.P10 != nil || c.Connected != 0 || c.Within500 != 0 || c.Times == nil {
		t.Errorf("%+v", c)
	}
}
