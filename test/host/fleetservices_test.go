// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/test/world/natsd"
)

const shopPort = 8443

// A fleet adds a service to a gate, changes it and takes it away, live; what does not fit is refused by name and changes nothing; a start protects the
// file's services whatever the fleet's are; and the detector is set.
func TestFleetServices(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.echoServer(shopPort)
	natsd.Start(t, w.Server, filepath.Join(w.dir, "nats"))
	tg := func(args ...string) (string, error) {
		out, errs, err := w.tidegateRun(append([]string{"fleet", "--server", "nats://127.0.0.1:4222"}, args...)...)
		return out + errs, err
	}
	w.await("the NATS server", func() bool {
		_, err := tg("init", "--replicas", "1")
		return err == nil
	})
	const member = "fleet: {servers: ['nats://127.0.0.1:4222'], node: gate1}"
	g := w.start(w.webConfig(webPort, member))
	w.await("the node reports", func() bool {
		out, err := tg("status")
		return err == nil && strings.Contains(out, "gate1")
	})
	apply := func(text string) (string, error) {
		path := filepath.Join(w.dir, "fleet.yaml")
		w.must(os.WriteFile(path, []byte(text), 0o600))
		return tg("apply", path, "--timeout", "20s")
	}
	must := func(text string) {
		t.Helper()
		if out, err := apply(text); err != nil || !strings.Contains(out, "in force at every node") {
			t.Fatalf("%s: %v: %s", text, err, out)
		}
	}
	has := func(name string) bool {
		for _, s := range w.status().Services {
			if s.Name == name {
				return true
			}
		}
		return false
	}

	must("groups: {front: [gate1, gate2]}\nservices:\n" +
		"  - {name: shop, ports: [8443], mode: always, roles: [host], nodes: [front]}\n" +
		"  - {name: elsewhere, ports: [8080], roles: [host], nodes: [gate2]}\n" +
		"  - {name: behind, ports: [8081], roles: [server]}\n")
	if has("elsewhere") || has("behind") {
		t.Error("a service of other nodes or roles is here")
	}
	for _, ipv6 := range []bool{false, true} {
		before := w.service("shop").Counters["adopted"]
		w.must(w.pingNew(ipv6, shopPort))
		if now := w.service("shop").Counters["adopted"]; now != before+1 {
			t.Errorf("a connection to the fleet's service: %d cookies verified", now-before)
		}
	}

	// By hand before the fleet, the fleet before the file.
	if out, errs, err := w.tidegateRun("mode", "shop", "monitor", "--instance", w.Instance); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	must("services: [{name: shop, ports: [8443], mode: always, roles: [host]}, {name: web, ports: [7777], mode: off, roles: [host]}]\n")
	if mode := w.service("shop").Mode; mode != string(config.ModeMonitor) {
		t.Errorf("by hand is monitor; the fleet's service has %s", mode)
	}
	if s := w.service("web"); s.Mode != string(config.ModeOff) {
		t.Errorf("the fleet's service has the place of the file's: %+v", s)
	}
	if out, errs, err := w.tidegateRun("mode", "shop", "configured", "--instance", w.Instance); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}

	// Refused before it is sent, and refused by the node.
	if out, err := apply("services: [{name: shop, ports: [8443]}]\n"); err == nil || !strings.Contains(out, "services.shop: at role proxy it would be every address") {
		t.Errorf("%v: %s", err, out)
	}
	must("services: [{name: shop, ports: [8443], mode: always, roles: [host]}]\n")
	if out, err := apply("services: [{name: clash, ports: ['7-7000'], roles: [host]}]\n"); err == nil || !strings.Contains(out, "node gate1 refuses revision") ||
		!strings.Contains(out, "services.clash.ports: 0.0.0.0/0 port 80 is claimed by web") {
		t.Errorf("%v: %s", err, out)
	}
	if !has("shop") || has("clash") {
		t.Errorf("the last good state is not in force: %+v", w.status().Services)
	}
	if out, err := tg("rollback"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// The file comes to claim the fleet's port: a reload is refused, a start goes on with the file, and status says so.
	file := w.webConfig(webPort, member)
	g.Reload(file+"  - {name: mine, ports: [8443], mode: always}\n", "reload refused", "mine")
	g.Stop()
	g = w.start(file + "  - {name: mine, ports: [8443], mode: always}\n")
	g.AwaitLog("the fleet's services are left out")
	w.must(w.pingNew(false, shopPort))
	if w.service("mine").Counters["adopted"] == 0 || has("shop") {
		t.Errorf("%+v", w.status().Services)
	}
	w.await("the node is named", func() bool {
		out, err := tg("status")
		return err != nil && strings.Contains(out, "refuses revision") && strings.Contains(out, "is claimed by mine of line")
	})
	g.Reload(file, "reloaded")
	w.await("the fleet's service again", func() bool { return has("shop") && !has("mine") })
	w.await("the node is in order", func() bool {
		out, err := tg("status")
		return err == nil && strings.Contains(out, "gate1")
	})

	// The detector: 15 uncompleted SYNs a second are an attack if the fleet says so; by default they would never be one.
	must("services: [{name: shop, ports: [8443], mode: auto, roles: [host]}]\nmodes: {web: auto}\ndetector: {hard: 10, calm: 1s}\n")
	stop := w.synFlood(15)
	defer stop()
	attacked := func() bool {
		var list []instance.DetectorState
		w.must(w.apiClient().Do(t.Context(), http.MethodGet, "/v1/detector", nil, &list))
		return slices.ContainsFunc(list, func(d instance.DetectorState) bool {
			return d.Service == "web" && d.On && d.Detector.Calm == time.Second
		})
	}
	w.await("an attack of 15 SYNs a second", attacked)
	must("modes: {web: auto}\n")
	if has("shop") {
		t.Error("a service that is not desired any more is still here")
	}
}
