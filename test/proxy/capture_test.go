// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// A capture at a proxy has both sides of a connection with the decisions, on every plane.
func TestCapture(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie"))
	file := filepath.Join(w.dir, "proxy.pcapng")
	p := w.instance.Capture("-w", file)
	for range 2 {
		for _, ipv6 := range harness.Families() {
			if err := w.ping(ipv6); err != nil {
				t.Error(err)
			}
		}
	}
	p.Interrupt()
	hook := "xdp"
	if testPlane == rig.PlaneDPDK {
		hook = "dpdk"
	}
	for _, family := range []string{"ip", "ipv6"} {
		harness.WantComment(t, file, family+" && tcp.flags == 0x002", "tx: syn, cookie_sent; service web; "+hook)
		harness.WantComment(t, file, family+" && tcp.flags == 0x010", "redirect: cookie_valid, flow_opened; service web; "+hook)
		ready := hook
		if harness.GenericXDP { // which leaves the two packets that the SYN-ACK makes to TC
			ready = "tc ingress"
		}
		harness.WantComment(t, file, family+" && tcp.flags == 0x012", "redirect: flow_ready; service web; "+ready)
		if testPlane == rig.PlaneDPDK { // the first one's SYN to the server waited for the server's MAC address
			harness.WantComment(t, file, family+" && tcp.flags == 0x010", "hold: cookie_valid, flow_opened; service web; dpdk")
		}
	}
	if testPlane == rig.PlaneDPDK {
		captureEnds(t, w)
	}
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
}

// captureEnds: a capture under DPDK is of the packets that are asked for, and leaves nothing in the path when it ends, by itself or because its client is killed.
// In the kernel, that is test/host's TestCapture and TestCaptureKilled.
func captureEnds(t *testing.T, w *world) {
	some := filepath.Join(w.dir, "some.pcapng")
	p := w.instance.Capture("-w", some, "--count", "3", "--reason", "cookie_valid", "--reason", "redirect", "--net", w.clientAddr().String(), "--port", "80")
	for range 5 {
		for _, ipv6 := range harness.Families() {
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.AwaitEnd()
	if !strings.HasPrefix(p.Stderr.String(), "3 packets in "+some) {
		t.Errorf("it says: %s", p.Stderr.String())
	}
	if list := harness.CaptureComments(t, some, "ip.src == "+w.clientAddr().String()); len(list) != 3 || strings.Contains(strings.Join(list, ""), "cookie_sent") {
		t.Errorf("captured: %q", list)
	}
	w.await("the end of the capture", func() bool { return len(w.status().Capturing) == 0 })

	p = w.instance.Capture("-w", filepath.Join(w.dir, "killed.pcapng"))
	out, errs, err := w.instance.Run("capture", "--instance", w.Instance, "-w", filepath.Join(w.dir, "second.pcapng"))
	if err == nil || !strings.Contains(errs, "somebody captures already") {
		t.Errorf("a second one: %v: %s%s", err, out, errs)
	}
	p.Kill()
	w.await("the end of the killed capture", func() bool { return len(w.status().Capturing) == 0 })
	none := filepath.Join(w.dir, "none.pcapng")
	out, errs, err = w.instance.Run("capture", "--instance", w.Instance, "-w", none, "--reason", "drop", "--net", w.clientAddr().String(), "--port", "80", "--duration", "300ms")
	if err != nil || !strings.HasPrefix(errs, "0 packets") {
		t.Errorf("of drops: %v: %s%s: %q", err, out, errs, harness.CaptureComments(t, none, ""))
	}
}
