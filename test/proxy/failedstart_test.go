// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"syscall"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// A start that takes over a box's packet path and then fails leaves it as it was, including
// translated connections: no client notices.
func TestFailedStart(t *testing.T) {
	needKernelPath(t)
	for _, bridge := range []bool{false, true} {
		t.Run(map[bool]string{false: "router", true: "bridge"}[bridge], func(t *testing.T) {
			w := newWorld(t, bridge)
			w.serveFor(5*time.Minute, echo)
			config := w.config("cookie")
			b := w.start(config)
			l := harness.StartLoad(t, 20, harness.InTurn(w.dial))
			for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				l.More(20)
				_ = b.Cmd.Process.Signal(end)
				<-b.Exited
				keysUntil := w.status().KeysUntil
				unblock := harness.BlockState(t, w.Instance)
				harness.FailedStart(t, w.Proxy, tidegate, w.writeConfig(config))
				unblock()
				before := w.counters()["cookie_sent"]
				l.More(50)
				if after := w.counters()["cookie_sent"]; after < before+45 {
					t.Errorf("%d cookies were sent, then %d", before, after)
				}
				if st := w.status(); st.Running || !st.KeysUntil.Equal(keysUntil) {
					t.Errorf("status says running %v, keys until %v, before %v", st.Running, st.KeysUntil, keysUntil)
				}
				b = w.start(config)
			}
			// Killed when everything is attached and nothing committed: its programs keep running, and the next start succeeds.
			_ = b.Cmd.Process.Kill()
			<-b.Exited
			harness.KilledStart(t, w.Proxy, tidegate, w.writeConfig(config), w.Instance)
			l.More(50)
			w.start(config)
			before := w.counters()["cookie_sent"]
			l.More(50)
			if after := w.counters()["cookie_sent"]; after < before+45 {
				t.Errorf("after a start that was killed: %d cookies were sent, then %d", before, after)
			}
			l.End("failed starts")
			w.off("--now")
		})
	}
}
