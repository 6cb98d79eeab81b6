// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	harness "tidegate/test/world"
)

// asNobody is a program that runs tidegate as another user with no capability but those named, in mounts of its own
// that hold what the units of the packages give it: /run/tidegate and /sys/fs/bpf/tidegate.
func (w *world) asNobody(caps ...string) (program string) {
	w.t.Helper()
	holder := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs run /run/tidegate && chown 65534:65534 /run/tidegate &&
mount -t bpf bpf /sys/fs/bpf && mkdir /sys/fs/bpf/tidegate && chown 65534:65534 /sys/fs/bpf/tidegate && chmod 755 /sys/fs/bpf && echo there && exec cat`)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := holder.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var said harness.Output
	holder.Stdout, holder.Stderr = &said, &said
	w.must(os.MkdirAll("/run/tidegate", 0o755))
	w.must(holder.Start())
	w.t.Cleanup(func() {
		in.Close()
		_ = holder.Wait()
	})
	w.await("mounts", func() bool { return strings.Contains(said.String(), "there") })
	w.must(os.Chmod(filepath.Dir(w.dir), 0o755))
	w.must(os.Chmod(filepath.Dir(tidegate), 0o755))
	w.must(os.Chown(w.secret, 65534, 65534))
	set := "-all"
	for _, c := range caps {
		set += ",+" + c
	}
	program = filepath.Join(w.dir, "as-nobody")
	w.must(os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec nsenter -m -t %d setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps %s --ambient-caps %s --bounding-set %s %s \"$@\"\n",
		holder.Process.Pid, set, set, set, tidegate), 0o700))
	return program
}

// Root is not needed, only three capabilities: another user protects, is killed and takes its packet path over again, and
// takes it down. Without one of them the start says which.
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
