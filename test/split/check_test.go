// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"tidegate/internal/probe"
)

// check runs `tidegate check -c` in the node's namespace and returns its rows by name.
func (n *node) check() map[string]probe.Check {
	w := n.w
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(tidegate, "check", "-c", n.writeConfig(), "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := n.ns.Do(cmd.Start); err != nil {
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

func (w *place) wantRow(rows map[string]probe.Check, name string, status probe.Status, text string) {
	w.t.Helper()
	c, there := rows[name]
	if !there || c.Status != status || !strings.Contains(c.Found+c.Means+c.Fix, text) {
		w.t.Errorf("%s: want %s and %q, got %+v (%v)", name, status, text, c, there)
	}
}

// `check` of a working edge and server, and of ones with missing parts.
func TestCheck(t *testing.T) {
	w := newTagged(t, []string{"peers: [192.0.2.77]"}, nil)
	rows := w.Edge.check()
	for name, c := range rows {
		if c.Status == probe.Fail {
			t.Errorf("edge: %s: %+v", name, c)
		}
	}
	for _, absent := range []string{"adoption kfunc", "cgroup2", "service web", "net.ipv4.tcp_syncookies"} {
		if _, there := rows[absent]; there {
			t.Errorf("%q is none of an edge's needs", absent)
		}
	}
	w.wantRow(rows, "filter", probe.OK, "1536 KiB")
	w.wantRow(rows, "peer 192.0.2.77", probe.OK, "leaves by")
	w.wantRow(rows, "role edge", probe.OK, "accepted")
	w.wantRow(rows, "forwarding IPv4", probe.OK, "=1")

	rows = w.server.check()
	v4, _ := w.EdgeAddrs()
	w.wantRow(rows, "edge 3, "+v4.String(), probe.OK, "tg-server")
	w.wantRow(rows, "connection table", probe.OK, "16384 KiB")
	w.wantRow(rows, "service web", probe.OK, "nothing listens here")
	w.sysctl(w.place.Server, "net.ipv4.tcp_syncookies", "0")
	w.server.configure("always", "takeover: auto")
	w.serve(echo)
	rows = w.server.check()
	w.wantRow(rows, "net.ipv4.tcp_syncookies", probe.Warn, "translates every connection")
	w.wantRow(rows, "service web", probe.OK, "adopted")
}
