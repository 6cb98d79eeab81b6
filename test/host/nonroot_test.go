// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// asNobody is harness.AsNobody for this world's secret.
func (w *world) asNobody(caps ...string) (program string) {
	w.t.Helper()
	return harness.AsNobody(w.t, tidegate, w.dir, []string{w.secret}, caps...)
}

// Root is not needed, only three capabilities: another user protects, is killed, takes over its packet path again, and
// detaches it. If one of them is missing the start says which.
func TestRunWithoutRoot(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	program := w.asNobody("bpf", "perfmon", "net_admin")
	conf := w.webConfig(webPort)
	readable := func() { w.must(os.Chmod(w.configPath, 0o644)) }
	w.writeConfig(conf)
	readable()
	g := w.launchBinary(program, conf)
	g.Await("ready", func() bool { return strings.Contains(g.Stdout.String(), "ready\n") })
	l := w.startLoad()
	l.more(20)
	g.Kill()
	l.more(20)
	g = w.launchBinary(program, conf)
	g.Await("ready again", func() bool { return strings.Contains(g.Stdout.String(), "ready\n") })
	l.more(20)
	ask := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program, append(args, "--instance", w.Instance)...)
		var out harness.Output
		cmd.Stdout, cmd.Stderr = &out, &out
		w.must(w.Server.Do(cmd.Start))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v: %s", args, err, out.String())
		}
		return out.String()
	}
	if out := ask("mode", "web", "monitor"); !strings.Contains(out, "monitor") {
		t.Error(out)
	}
	ask("mode", "web", "configured")
	if out := ask("status"); !strings.Contains(out, "running") || strings.Contains(out, " 0       0        0 ") {
		t.Error(out)
	}
	if out := ask("status"); strings.Contains(out, "namespace cannot be read") { // legacy tables cannot, where the kernel has them: root's file
		t.Error(out)
	}
	l.end()
	l.noFailure()
	g.Interrupt()

	lacking := w.asNobody("bpf", "net_admin")
	g = w.launchBinary(lacking, conf)
	<-g.Exited
	if !strings.Contains(g.Stderr.String(), "needs CAP_PERFMON;") {
		t.Errorf("without CAP_PERFMON: %s", g.Stderr.String())
	}
}
