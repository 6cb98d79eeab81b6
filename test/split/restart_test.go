package splittest

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"tidegate/test/labtest"
)

const liveConns = 50

// Edge and server are stopped and started again, and reloaded, one after the other, while
// clients stay connected and others come: nobody notices.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name         string
		tagged       bool
		edge, server []string
	}{
		{"adopt", false, nil, nil},
		{"translate", false, nil, []string{"takeover: translate"}},
		{"auto", false, nil, []string{"takeover: auto"}},
		{"tagged", true, nil, nil},
		{"smartcookie", false, []string{"cookie_layout: smartcookie"}, []string{"cookie_layout: smartcookie"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSplit(t, c.tagged, c.edge, c.server)
			w.serve(echo)
			w.startBoth()
			l := labtest.StartLoad(t, liveConns, func() (*net.TCPConn, error) { return w.dial(false, 0) })
			l.More(50)
			for _, n := range []*node{w.server, w.Edge} {
				n.stop()
				l.More(100)
				if st := n.status(); st.Running || st.Since.IsZero() {
					t.Errorf("%s: status says running %v, without a daemon since %v", n.instance, st.Running, st.Since)
				}
				n.start()
				l.More(50)
				n.reloaded()
				l.More(20)
			}
			l.End("stops, starts and reloads of both")
		})
	}
}

func newSplit(t *testing.T, tagged bool, edge, server []string) *world {
	if tagged {
		return newTagged(t, edge, server)
	}
	w := newWorld(t, false)
	if strings.Contains(fmt.Sprint(server), "takeover") { // it has an XDP program of its own
		if err := w.YieldServer(); err != nil {
			t.Fatal(err)
		}
	}
	w.Edge.configure("always", append([]string{"learning: 0s", "unknown_rate: 0"}, edge...)...)
	w.server.configure("always", server...)
	return w
}

// Off takes everything down, running or not, twice or once. Adopted connections live on;
// translated ones until they end or the drain time passes.
func TestOff(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		name := "adopt"
		if tagged {
			name = "tagged"
		}
		t.Run(name, func(t *testing.T) {
			w := newSplit(t, tagged, nil, nil)
			w.serve(echo)
			w.startBoth()
			c := w.open(false)
			w.Edge.off() // asks the running process
			<-w.Edge.run.exited
			w.still(c, "no edge")
			w.server.stop()
			if !tagged {
				w.server.off()
				w.still(c, "adopted, and nothing is installed")
			} else {
				done := make(chan struct{})
				go func() { w.server.off("--drain", "1m"); close(done) }()
				w.await("drain", func() bool { return w.server.status().Draining })
				w.still(c, "translated, draining")
				if err := w.ping(false); err != nil {
					t.Errorf("new connection, draining: %v", err)
				}
				c.Close()
				select {
				case <-done: // with the last connection
				case <-t.Context().Done():
				}
			}
			w.server.off()
			w.Edge.off()
			if err := w.ping(false); err != nil {
				t.Errorf("new connection, nothing is installed: %v", err)
			}
		})
	}
}
