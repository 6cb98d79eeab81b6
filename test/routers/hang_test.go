// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"os"
	"syscall"
	"testing"

	"tidegate/internal/routers/speaker"
)

// A gate that hangs loses its routes after speaker.OrderTime, and has them again when it goes on. `make soak` runs this.
func TestHang(t *testing.T) {
	if os.Getenv("TIDEGATE_SOAK") == "" {
		t.Skipf("takes longer than %s; `make soak` runs it", speaker.OrderTime)
	}
	w := newWorld(t)
	f := w.frr("")
	g := w.start(w.config("service_prefixes: [203.0.113.0/24], settle: 1s", secured))
	here := func() bool { return f.kernel("203.0.113.0/24") != "" }
	w.until("the prefix is announced", here)
	t.Cleanup(func() { _ = g.Cmd.Process.Signal(syscall.SIGCONT) }) // what asks it at the end of a failure would hang, too
	g.Halt()
	w.until("the prefix of a gate that hangs is withdrawn", func() bool { return !here() })
	g.Signal(syscall.SIGCONT)
	w.until("the prefix is back", here)
}
