// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"tidegate/internal/api"
	"tidegate/internal/instance"
	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// A proxy in mode auto passes everything until a flood begins, and again when it is over; clients notice neither.
func TestAutomatic(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache"} {
		t.Run(strategy, func(t *testing.T) { automatic(t, strategy) })
	}
}

func automatic(t *testing.T, strategy string) {
	w := newWorld(t, false)
	w.serve(echo)
	for _, suffix := range []string{".events", ".events.lock", ".sock", ".attacks"} {
		t.Cleanup(func() { _ = os.Remove("/run/tidegate/" + w.Instance + suffix) })
	}
	w.instance.Write(strings.Replace(w.config(strategy), "mode: always", "mode: auto", 1))
	w.prepare()
	w.box = &box{w.instance.Start("--detector-calm", "1s")}
	c := api.NewClient("/run/tidegate", w.Instance)
	on := func() bool {
		var list []instance.DetectorState
		if err := c.Do(t.Context(), http.MethodGet, "/v1/detector", nil, &list); err != nil || len(list) != 1 {
			t.Fatalf("%v: %+v", err, list)
		}
		return list[0].On
	}
	l := harness.StartLoad(t, 10, harness.InTurn(func(ipv6 bool) (*net.TCPConn, error) { return w.dial(ipv6) }))
	l.More(300)
	if c := w.counters(); c["cookie_sent"]+c["cache_kept"] != 0 || c["handshake"] == 0 || c["detect_syn"] < c["handshake"] || on() {
		t.Errorf("before the flood: %v", harness.NonZero(c))
	}
	flood, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.ServiceAddr(false, port), Flags: load.FlagSYN, CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	w.await("the attack to be seen", func() bool {
		if _, err := flood.Burst(2000); err != nil {
			t.Fatal(err)
		}
		return on()
	})
	l.More(100)
	if c := w.counters(); c["cookie_sent"]+c["cache_kept"] == 0 || c["flow_opened"] == 0 {
		t.Errorf("under the flood: %v", harness.NonZero(c))
	}
	w.await("the end of the attack", func() bool { return !on() })
	l.More(100)
	before := w.counters()["flow_opened"]
	l.More(100)
	if now := w.counters()["flow_opened"]; now > before+1 {
		t.Errorf("%d SYNs were answered after the attack", now-before)
	}
	l.End("mode auto")
}
