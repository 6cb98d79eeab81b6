// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/status"
)

// A mode set by hand is in force when the command returns, and persists over reloads and a kill -9 until it is unset.
// Users with access to the socket see the status; others are refused.
func TestModeByHand(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	for _, suffix := range []string{".events", ".events.lock", ".modes", ".sock"} {
		t.Cleanup(func() { _ = os.Remove("/run/tidegate/" + w.Instance + suffix) })
	}
	conf := w.webConfig(webPort)
	g := w.start(conf)
	ask := func(args ...string) (string, error) {
		out, errs, err := w.tidegateRun(append(args, "--instance", w.Instance)...)
		return out + errs, err
	}
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := ask(args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v: %s, want %q", args, err, out, want)
		}
	}
	mode := func(want string) {
		t.Helper()
		if got := w.service("web").Mode; got != want {
			t.Errorf("the mode is %s, want %s", got, want)
		}
	}
	must("monitor", "mode", "web", "monitor")
	mode("monitor")
	must("nothing has changed", "reload")
	mode("monitor")
	g.Kill()
	g = w.start(conf)
	mode("monitor")
	must("always", "mode", "web", "configured")
	mode("always")

	w.writeConfig(conf + "clock_skew: 1s\n")
	if out, err := ask("config", "diff"); err == nil || !strings.Contains(out, "clock_skew  0s       1s    restart") {
		t.Errorf("config diff: %v: %s", err, out)
	}
	if out, err := ask("reload"); err == nil || !strings.Contains(out, "clock_skew changed") {
		t.Errorf("reload: %v: %s", err, out)
	}
	w.writeConfig(conf + "  - {name: mail, ports: [25], mode: always}\n")
	must("services.mail (new)", "reload")
	must("no difference", "config", "diff")
	must("config-changed: the configuration has changed changed=\"services.mail (new)\"", "events")

	var st status.Status
	out, err := exec.Command("curl", "-sS", "--max-time", "10", "--unix-socket", "/run/tidegate/"+w.Instance+".sock", "http://tidegate/v1/status").Output()
	if err != nil || json.Unmarshal(out, &st) != nil || st.Role != config.RoleHost || len(st.Services) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	stranger := exec.Command("curl", "-sS", "--max-time", "10", "--unix-socket", "/run/tidegate/"+w.Instance+".sock", "http://tidegate/v1/status")
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := stranger.CombinedOutput(); err == nil {
		t.Errorf("a stranger is told: %s", out)
	}
	g.Stop()
	if out, err := ask("reload"); err == nil || !strings.Contains(out, "no process of instance") {
		t.Errorf("reload of nobody: %v: %s", err, out)
	}
	if _, err := os.Stat("/run/tidegate/" + w.Instance + ".sock"); err == nil {
		t.Error("the socket stays")
	}
}
