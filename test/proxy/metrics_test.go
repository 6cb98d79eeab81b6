// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"cmp"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Prometheus gets what `status` shows, the same on every plane.
func TestMetrics(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie", "metrics: 127.0.0.1:9464"))
	if err := w.ping(false); err != nil {
		t.Fatal(err)
	}
	counters := w.counters()
	var out, errs harness.Output
	cmd := exec.Command("curl", "-sS", "--max-time", "10", "http://127.0.0.1:9464/metrics")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.Proxy.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("curl: %v: %s", err, errs.String())
	}
	for _, name := range []string{"syn", "cookie_sent", "cookie_valid", "flow_ready"} {
		want := fmt.Sprintf("tidegate_%s_total{service=\"web\"} %d\n", name, counters[name])
		if counters[name] == 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	want := []string{fmt.Sprintf(`tidegate_instance_info{forwarding="router",name=%q,plane=%q,role="proxy"} 1`, w.Instance, cmp.Or(testPlane, "xdp")), "process_cpu_seconds_total"}
	if testPlane == rig.PlaneDPDK { // the program that forwards is a process of its own
		want = append(want, "tidegate_dpdk_process_cpu_seconds_total", "tidegate_flows")
	}
	for _, name := range want {
		if !strings.Contains(out.String(), "\n"+name) {
			t.Errorf("%q is missing in\n%s", name, out.String())
		}
	}
}
