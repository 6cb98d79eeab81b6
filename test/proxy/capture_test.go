// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// A capture at a proxy has both sides of a connection with the decisions; the userspace plane reports that it has no capture.
func TestCapture(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie"))
	file := filepath.Join(w.dir, "proxy.pcapng")
	if testPlane == rig.PlaneDPDK {
		if _, errs, err := w.instance.Run("capture", "--instance", w.Instance, "-w", file); err == nil || !strings.Contains(errs, "decide about in the kernel") || !strings.Contains(errs, "plane: dpdk") {
			t.Errorf("%v: %s", err, errs)
		}
		return
	}
	p := w.instance.Capture("-w", file)
	for _, ipv6 := range harness.Families() {
		if err := w.ping(ipv6); err != nil {
			t.Error(err)
		}
	}
	p.Interrupt()
	for _, family := range []string{"ip", "ipv6"} {
		harness.WantComment(t, file, family+" && tcp.flags == 0x002", "tx: syn, cookie_sent; service web; xdp")
		harness.WantComment(t, file, family+" && tcp.flags == 0x010", "redirect: cookie_valid, flow_opened; service web; xdp")
		harness.WantComment(t, file, family+" && tcp.flags == 0x012", "redirect: flow_ready; service web; tc ingress")
	}
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
}
