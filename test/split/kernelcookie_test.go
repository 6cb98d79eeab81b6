// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
	harness "tidegate/test/world"
)

// While an edge passes SYNs, a listener's backlog may fill, and the kernel answers with its own cookies. The final ACK check recognizes
// their ACKs: such a connection has neither a socket nor a request.
func TestKernelCookie(t *testing.T) {
	for _, f := range families() {
		t.Run(familyName(f), func(t *testing.T) {
			w := newWorld(t, false)
			w.sysctl(w.place.Server, "net.ipv4.tcp_syncookies", "2") // each SYN is answered with a cookie
			w.serve(echoLong)
			w.Edge.configure("auto")
			w.server.configure("always", "unmatched_ack: drop")
			w.startBoth()
			forgetSYNs(t, w.server.pins())
			for range 20 {
				c, err := w.dial(f, 0)
				if err != nil {
					t.Fatalf("%v; the server counted %v", err, nonZero(w.server.counters()))
				}
				err = harness.Word(c)
				c.Close()
				if err != nil {
					t.Fatalf("%v; the server counted %v", err, nonZero(w.server.counters()))
				}
			}
			if n := harness.ReachedStack(t, w.place.Server, port).Cookies; n < 20 {
				t.Errorf("the kernel has sent %d cookies of its own: nothing was tested", n)
			}
		})
	}
}

// forgetSYNs has the server believe that no SYN has come for minutes, as if it had been started long ago: from now on it knows by itself
// which connections the kernel may have answered.
func forgetSYNs(t *testing.T, pins string) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, hostbpf.HostTcMapTgKernelSyns), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	list := make([]uint32, m.MaxEntries())
	for i := range list {
		list[i] = uint32(i)
	}
	if _, err := m.BatchUpdate(list, make([]uint64, len(list)), nil); err != nil {
		t.Fatal(err)
	}
}
