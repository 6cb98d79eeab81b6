// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A gate that starts in this machine's namespace and protects another one, as a container's from outside: by the namespace's
// name and by a process in it. It is killed, taken over and taken down from outside, too.
func TestOtherNetworkNamespace(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	config := w.webConfig(webPort, "drain: 0s")
	w.in.NS = nil // commands start here

	if out, errs, err := w.tidegateRun("check", "--netns", w.Server.Name, "-c", w.configPath); err == nil || !strings.Contains(errs, w.configPath) {
		t.Errorf("check without a configuration: %v: %s%s", err, out, errs)
	}
	w.writeConfig(config)
	if out, errs, err := w.tidegateRun("check", "--netns", w.Server.Name, "-c", w.configPath); err != nil || !strings.Contains(out, "tg-server") {
		t.Errorf("check in the namespace: %v: %s%s", err, out, errs)
	}
	if out, _, err := w.tidegateRun("check", "-c", w.configPath); err == nil {
		t.Errorf("the canary: check outside the namespace finds the interface there: %s", out)
	}

	g := &gate{w.in.Launch("--netns", w.Server.Name)}
	g.AwaitReady()
	w.mustPingNew(5)
	w.wantCounters(map[string]uint64{"adopted": 10})
	if got := devices(t, g.Cmd.Process.Pid); !strings.Contains(got, "tg-server") || strings.Contains(got, "eth0") {
		t.Errorf("the gate's /sys/class/net has %s", got)
	}
	g.Kill()
	w.mustPingNew(5)

	inside := exec.Command("sleep", "600")
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.Server.Do(inside.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(inside.Process.Kill(), inside.Wait()) })
	g = &gate{w.in.Launch("--netns", fmt.Sprint(inside.Process.Pid))}
	g.AwaitReady()
	w.mustPingNew(5)
	w.wantCounters(map[string]uint64{"adopted": 10})
	w.off("--netns", w.Server.Name)
	<-g.Exited
	w.nothingInstalled()
	w.mustPingNew(1)
}

// devices lists the devices that a process sees in its sysfs.
func devices(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("ls", fmt.Sprintf("/proc/%d/root/sys/class/net", pid)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
