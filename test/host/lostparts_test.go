// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	harness "tidegate/test/world"
)

// The array of programs by which the gate verifies ACKs lives by its pin once the daemon is dead. When it is gone, or a part of it, the gate
// notices with the first ACK and leaves SYNs to the kernel: clients are served, status says what is wrong, and a new process protects again.
func TestLostParts(t *testing.T) {
	parts := func(w *world) string { return filepath.Join(w.pinDir(), "tg_parts") }
	empty := func(at uint32) func(*world) error {
		return func(w *world) error {
			m, err := ebpf.LoadPinnedMap(parts(w), nil)
			if err != nil {
				return err
			}
			defer m.Close()
			return m.Delete(at)
		}
	}
	for _, c := range []struct {
		name, takeover string
		lose           func(*world) error
	}{
		{"no pin", "auto", func(w *world) error { return os.Remove(parts(w)) }},
		{"adopting part", "auto", empty(0)},
		{"opening part", "translate", empty(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			conf := w.webConfig(webPort, "takeover: "+c.takeover)
			w.start(conf).Kill()
			w.mustPingNew(2)
			live := w.mustDial(false, webPort)
			w.must(live.ping())
			if w.status().Unverifiable {
				t.Error("status says that ACKs cannot be verified, and they are")
			}

			w.must(c.lose(w))
			w.await("SYNs to be left to the kernel", func() bool {
				if conn, err := w.dial(false, webPort); err == nil { // the first client's ACK shows that nobody verifies it
					conn.Close()
				}
				return w.counters()["pass_unverifiable"] > 0
			})
			before := w.counters()
			w.mustPingNew(10)
			w.must(live.ping())
			now := w.counters()
			n := uint64(10 * len(families()))
			if now["pass_unverifiable"]-before["pass_unverifiable"] != n || now["cookie_sent"] != before["cookie_sent"] {
				t.Errorf("of %d SYNs %d were left to the kernel and %d answered", n, now["pass_unverifiable"]-before["pass_unverifiable"], now["cookie_sent"]-before["cookie_sent"])
			}
			out, _, err := w.tidegateRun("status", "--instance", w.Instance)
			if err != nil || !strings.Contains(out, "UNPROTECTED: ") || !strings.Contains(out, "tg_parts") {
				t.Errorf("%v: %s", err, out)
			}

			w.start(conf)
			w.mustPingNew(2)
			w.must(live.ping())
			if c := w.counters(); c["cookie_valid"] != uint64(2*len(families())) || w.status().Unverifiable {
				t.Errorf("after the next start: %v", harness.NonZero(c))
			}
			w.off("--now")
			w.nothingInstalled()
		})
	}
}

// A daemon that lives fills the array again, and says so.
func TestLostPartsAreMended(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "synack_limit: 1000"))
	w.mustPingNew(1)
	m, err := ebpf.LoadPinnedMap(filepath.Join(w.pinDir(), "tg_parts"), nil)
	w.must(err)
	defer m.Close()
	w.must(errors.Join(m.Delete(uint32(0)), m.Delete(uint32(1))))
	g.Await("the daemon's word", func() bool {
		if conn, err := w.dial(false, webPort); err == nil {
			conn.Close()
		}
		return len(g.Log("tg_parts", "filled again")) > 0
	})
	w.await("cookies again", func() bool {
		before := w.counters()["adopted"]
		w.mustPingNew(1)
		return w.counters()["adopted"] == before+uint64(len(families()))
	})
	if w.status().Unverifiable {
		t.Error("status still says that ACKs cannot be verified")
	}
}
