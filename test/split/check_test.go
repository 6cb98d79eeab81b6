// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"testing"

	"tidegate/internal/probe"
	harness "tidegate/test/world"
)

func (n *node) check() harness.Checks {
	n.writeConfig()
	return n.in().Check()
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
	rows.Want(t, "filter", probe.OK, "1536 KiB")
	rows.Want(t, "peer 192.0.2.77", probe.OK, "leaves by")
	rows.Want(t, "role edge", probe.OK, "accepted")
	rows.Want(t, "forwarding IPv4", probe.OK, "=1")

	rows = w.server.check()
	v4, _ := w.EdgeAddrs()
	rows.Want(t, "edge 3, "+v4.String(), probe.OK, "tg-server")
	rows.Want(t, "connection table", probe.OK, "16384 KiB")
	rows.Want(t, "service web", probe.OK, "nothing listens here")
	w.sysctl(w.place.Server, "net.ipv4.tcp_syncookies", "0")
	w.server.configure("always", "takeover: auto")
	w.serve(echo)
	rows = w.server.check()
	rows.Want(t, "net.ipv4.tcp_syncookies", probe.Warn, "translates every connection")
	rows.Want(t, "service web", probe.OK, "adopted")
}
