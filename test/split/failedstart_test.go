// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"strings"
	"testing"

	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// A start of an edge or a server that takes over the packet path and then fails leaves it as it was,
// including settings that it shares with the previous process. No client notices.
func TestFailedStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		tagged bool
		server []string
	}{
		{"adopt", false, nil},
		{"translate", false, []string{"takeover: translate"}},
		{"auto", false, []string{"takeover: auto"}},
		{"tagged", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSplit(t, c.tagged, nil, c.server)
			w.serve(echoLong)
			w.startBoth()
			l := harness.StartLoad(t, 20, w.inTurn())
			l.More(20)
			for _, n := range []*node{w.server, w.Edge} {
				for i, end := range []func(){n.stop, n.kill} {
					if i == 1 && c.name != "adopt" {
						break // the edge, and the start, behave the same
					}
					end()
					w.failStart(n)
					took := map[bool]string{true: "cookie_sent", false: "adopted"}[n == w.Edge]
					if n == w.server && c.name != "adopt" && c.name != "auto" {
						took = "split_ready"
					}
					before, keysUntil := n.counters()[took], n.status().KeysUntil
					l.More(50)
					if after := n.counters()[took]; after < before+45 {
						t.Errorf("%s: %s was %d, and is %d", n.instance, took, before, after)
					}
					if st := n.status(); st.Running || !st.KeysUntil.Equal(keysUntil) {
						t.Errorf("%s: status says running %v, keys until %v", n.instance, st.Running, st.KeysUntil)
					}
					n.start()
					l.More(20)
				}
			}
			l.End("failed starts of both")
		})
	}
}

// failStart makes a start of a node with other settings fail after everything is attached.
func (w *world) failStart(n *node) {
	w.place.t.Helper()
	config := n.config
	defer func() { n.config = config }()
	edge := strings.HasPrefix(config, "role: edge")
	before, _, err := plane.ReadEdge(n.pins())
	if edge {
		n.config = "hops: 5\n" + config
		if err != nil {
			w.place.t.Fatal(err)
		}
	}
	defer harness.BlockState(w.place.t, n.instance)()
	if output := harness.FailedStart(w.place.t, n.ns, tidegate, n.writeConfig()); !strings.Contains(output, "json.new") {
		w.place.t.Errorf("%s: says %s", n.instance, output)
	}
	if after, _, err := plane.ReadEdge(n.pins()); edge && (err != nil || after != before) {
		w.place.t.Errorf("%s: settings were %+v and are %+v, %v", n.instance, before, after, err)
	}
}

func (n *node) pins() string { return plane.PinDir("/sys/fs/bpf", n.instance) }
