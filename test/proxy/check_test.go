// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/probe"
)

// check runs `tidegate check -c` in the box and returns its rows by name.
func (w *world) check(config string) map[string]probe.Check {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(tidegate, "check", "-c", w.writeConfig(config), "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.Proxy.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	failed := cmd.Wait() != nil
	var r probe.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		w.t.Fatalf("%v in %q; %s", err, out.String(), errs.String())
	}
	if failed == r.OK {
		w.t.Errorf("the report says ok=%v, and the exit code the contrary", r.OK)
	}
	rows := map[string]probe.Check{}
	for _, c := range r.Checks {
		rows[c.Name] = c
	}
	return rows
}

func (w *world) wantRow(rows map[string]probe.Check, name string, status probe.Status, text string) {
	w.t.Helper()
	c, there := rows[name]
	if !there || c.Status != status || !strings.Contains(c.Found+c.Means+c.Fix, text) {
		w.t.Errorf("%s: want %s and %q, got %+v (%v)", name, status, text, c, there)
	}
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
	w.wantRow(rows, "route to 198.18.0.80/32", probe.OK, "tg-inner")
	w.wantRow(rows, "both directions IPv4", probe.OK, "tg-flood")
	w.wantRow(rows, "forwarding IPv4", probe.OK, "=1")

	missing := strings.Replace(whole, ", tg-inner", "", 1)
	w.wantRow(w.check(missing), "route to 198.18.0.80/32", probe.Fail, "add tg-inner")
	local := strings.Replace(whole, "198.18.0.80/32", "198.18.2.1/32", 1)
	w.wantRow(w.check(local), "route to 198.18.2.1/32", probe.Fail, "role: host")
	if err := w.Proxy.SetSysctl("net.ipv4.ip_forward", "0"); err != nil {
		t.Fatal(err)
	}
	w.wantRow(w.check(whole), "forwarding IPv4", probe.Fail, "sysctl -w net.ipv4.ip_forward=1")
}

// A bridge has no routes to check, but two ports.
func TestCheckBridge(t *testing.T) {
	w := newWorld(t, true)
	rows := w.check(w.config("cookie"))
	for name := range rows {
		if strings.HasPrefix(name, "way to") || strings.HasPrefix(name, "forwarding") {
			t.Errorf("a bridge has no %q", name)
		}
	}
	w.wantRow(rows, "both directions", probe.OK, "tg-legit and tg-inner")
	if err := w.InnerPort.SetMTU(1400); err != nil {
		t.Fatal(err)
	}
	w.wantRow(w.check(w.config("cookie")), "MTU", probe.Warn, "1400 on tg-inner")
	if !slices.Contains([]probe.Status{probe.OK, probe.Warn}, rows["memory"].Status) {
		t.Errorf("memory: %+v", rows["memory"])
	}
}
