// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"slices"
	"strings"
	"testing"

	"tidegate/internal/probe"
	harness "tidegate/test/world"
)

func (w *world) check(config string) harness.Checks {
	w.t.Helper()
	w.writeConfig(config)
	return w.instance.Check()
}

// `check` of a working router, and of routers with one part missing.
func TestCheckRouter(t *testing.T) {
	w := newWorld(t, false)
	whole := w.config("cookie\n    prefixes: [198.18.0.80/32]")
	rows := w.check(whole)
	for name, c := range rows {
		if c.Status == probe.Fail {
			t.Errorf("a router that forwards failed: %s: %+v", name, c)
		}
	}
	for _, absent := range []string{"adoption kfunc", "cgroup2", "service web", "net.ipv4.tcp_syncookies"} {
		if _, there := rows[absent]; there {
			t.Errorf("%q is of the host role", absent)
		}
	}
	rows.Want(t, "route to 198.18.0.80/32", probe.OK, "tg-inner")
	rows.Want(t, "both directions IPv4", probe.OK, "tg-flood")
	rows.Want(t, "forwarding IPv4", probe.OK, "=1")

	missing := strings.Replace(whole, ", tg-inner", "", 1)
	w.check(missing).Want(t, "route to 198.18.0.80/32", probe.Fail, "add tg-inner")
	local := strings.Replace(whole, "198.18.0.80/32", "198.18.2.1/32", 1)
	w.check(local).Want(t, "route to 198.18.2.1/32", probe.Fail, "role: host")
	if err := w.Proxy.SetSysctl("net.ipv4.ip_forward", "0"); err != nil {
		t.Fatal(err)
	}
	w.check(whole).Want(t, "forwarding IPv4", probe.Fail, "sysctl -w net.ipv4.ip_forward=1")
}

// A bridge has no routes to check, but two ports.
func TestCheckBridge(t *testing.T) {
	w := newWorld(t, true)
	rows := w.check(w.config("cookie"))
	for name := range rows {
		if strings.HasPrefix(name, "route to") || strings.HasPrefix(name, "forwarding") {
			t.Errorf("a bridge has no %q", name)
		}
	}
	rows.Want(t, "both directions", probe.OK, "tg-legit and tg-inner")
	if err := w.InnerPort.SetMTU(1400); err != nil {
		t.Fatal(err)
	}
	w.check(w.config("cookie")).Want(t, "MTU", probe.Warn, "1400 on tg-inner")
	if !slices.Contains([]probe.Status{probe.OK, probe.Warn}, rows["memory"].Status) {
		t.Errorf("memory: %+v", rows["memory"])
	}
}
