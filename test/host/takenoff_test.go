// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"

	"tidegate/internal/plane"
)

// A program that somebody has taken off an interface is missed by `status`, and back after a restart.
func TestTakenOffIsReported(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	says := func() bool {
		text, _, err := w.in.Run("status", "--instance", w.Instance)
		w.must(err)
		return strings.Contains(text, "NOT ATTACHED TO tg-server")
	}
	if says() {
		t.Error("an attached program is missed")
	}
	l, err := link.LoadPinnedLink(filepath.Join(plane.PinDir("/sys/fs/bpf", w.Instance), "xdp-tg-server"), nil)
	w.must(err)
	defer l.Close()
	w.must(l.Detach())
	if !says() {
		t.Error("a detached link is not missed")
	}
	g.Stop()
	w.start(w.webConfig(webPort))
	if says() {
		t.Error("after a restart it is still missed")
	}
	w.mustPingNew(1)
}
