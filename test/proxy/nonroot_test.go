// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// A proxy without root swaps its tables, is killed and taken over by another process, and loses no connection: it opens the maps in
// the slots by their own pins.
func TestWithoutRoot(t *testing.T) {
	if testPlane == rig.PlaneDPDK {
		t.Skip("plane: dpdk takes devices and more capabilities (docs/dpdk.md)")
	}
	w := newWorld(t, true)
	w.serve(echo)
	program := harness.AsNobody(t, tidegate, w.dir, []string{filepath.Join(w.dir, "secret")}, "bpf", "perfmon", "net_admin")
	w.instance.Write(w.config("cookie", "swap_period: 1s"))
	if err := os.Chmod(w.instance.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	asNobody := *w.instance
	asNobody.Binary = program
	pins := func(p *harness.Process) map[string]bool {
		t.Helper()
		list, err := filepath.Glob(fmt.Sprintf("/proc/%d/root%s/tg_*-*", p.Cmd.Process.Pid, w.instance.PinDir()))
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, path := range list {
			names[filepath.Base(path)] = true
		}
		return names
	}
	p := asNobody.Start()
	c, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	speak := func(when string) {
		t.Helper()
		if err := harness.Word(c); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	speak("at first")
	first := pins(p)
	if len(first) != 8 {
		t.Errorf("pins of slots: %v, want two of each of four tables", first)
	}
	w.await("two swaps", func() bool {
		for name := range pins(p) {
			if first[name] && strings.HasPrefix(name, "tg_white") {
				return false
			}
		}
		return len(pins(p)) == 8
	})
	speak("after swaps")
	p.Kill()
	speak("without a process")
	again := asNobody.Start()
	speak("another process")
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
	for _, log := range []*harness.Process{p, again} {
		for _, word := range []string{"lost", "level=ERROR", "not permitted"} {
			if lines := log.Log(word); len(lines) > 0 {
				t.Errorf("%s", strings.Join(lines, ""))
			}
		}
	}
	again.Interrupt()
	if again.Err != nil {
		t.Errorf("its end: %v", again.Err)
	}
}
