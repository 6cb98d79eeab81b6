// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net/http"
	"os"
	"testing"

	"tidegate/internal/api"
	"tidegate/internal/instance"
	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// An edge and a server in mode auto pass everything until a flood begins, and again when it is over; clients notice neither.
func TestAutomatic(t *testing.T) {
	w := newWorld(t, false)
	w.sysctl(w.place.Server, "net.core.somaxconn", "1024") // the flood's first SYNs fill it: then the kernel answers with cookies
	w.serve(echoLong)
	for _, n := range []*node{w.Edge, w.server} {
		n.configure("auto")
		for _, suffix := range []string{".events", ".events.lock", ".sock", ".attacks"} {
			t.Cleanup(func() { _ = os.Remove("/run/tidegate/" + n.instance + suffix) })
		}
		n.writeConfig()
		n.run = n.in().Start("--detector-calm", "1s")
	}
	c := api.NewClient("/run/tidegate", w.Edge.instance)
	on := func() bool {
		var list []instance.DetectorState
		if err := c.Do(t.Context(), http.MethodGet, "/v1/detector", nil, &list); err != nil || len(list) != 1 {
			t.Fatalf("%v: %+v", err, list)
		}
		return list[0].On
	}
	l := harness.StartLoad(t, 10, w.inTurn())
	l.More(300)
	if c := w.Edge.counters(); c["cookie_sent"] != 0 || c["handshake"] == 0 || c["detect_syn"] < c["handshake"] || on() {
		t.Errorf("before the flood: %v", harness.NonZero(c))
	}
	w.place.await("the attack to be seen", func() bool {
		w.burst(load.FlagSYN, false, 2000)
		return on()
	})
	l.More(100)
	if c := w.Edge.counters(); c["cookie_sent"] == 0 || c["edge_verified"] == 0 && c["ack_verified"] == 0 && c["cookie_valid"] == 0 {
		t.Errorf("under the flood: %v", harness.NonZero(c))
	}
	w.place.await("the end of the attack", func() bool { return !on() })
	l.More(100)
	before := w.Edge.counters()["cookie_sent"]
	l.More(100)
	if now := w.Edge.counters()["cookie_sent"]; now != before {
		t.Errorf("%d SYNs were answered after the attack", now-before)
	}
	l.End("mode auto")
}
