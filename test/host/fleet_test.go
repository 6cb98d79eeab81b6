// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/test/world/natsd"
)

// A gate follows its fleet: modes and lists come into force, a file that nobody could use is refused before it is sent, the servers' end
// changes nothing, nor does a restart without them, and what is set by hand has precedence.
func TestFleetMember(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	nats := func() *exec.Cmd {
		t.Helper()
		return natsd.Start(t, w.Server, filepath.Join(w.dir, "nats"))
	}
	servers := nats()
	tg := func(args ...string) (string, error) {
		out, errs, err := w.tidegateRun(append([]string{"fleet", "--server", "nats://127.0.0.1:4222"}, args...)...)
		return out + errs, err
	}
	w.await("the NATS server", func() bool {
		_, err := tg("init", "--replicas", "1")
		return err == nil
	})
	conf := w.webConfig(webPort, "fleet: {servers: ['nats://127.0.0.1:4222'], node: gate1}", "source_limits: {new_per_second: 1, action: report}")
	g := w.start(conf)
	w.mustPingNew(1)
	write := func(text string) string {
		t.Helper()
		path := filepath.Join(w.dir, "fleet.yaml")
		w.must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	mustSay := func(want string, args ...string) {
		t.Helper()
		if out, err := tg(args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("fleet %v: %v: %s, want %q", args, err, out, want)
		}
	}
	w.await("the node reports", func() bool {
		out, err := tg("status")
		return err == nil && strings.Contains(out, "gate1")
	})
	w.await("the node's events", func() bool {
		out, err := tg("events")
		return err == nil && strings.Contains(out, "gate1 1 ") && strings.Contains(out, "protecting")
	})
	w.await("a source above its limit is one of the fleet's", func() bool {
		w.mustPingNew(5)
		out, err := tg("top")
		return err == nil && strings.Contains(out, "198.18.3.2/32 ") && strings.Contains(strings.Join(strings.Fields(out), " "), "/s gate1")
	})
	if strings.Contains(strings.Join(g.Log(), "\n"), "events cannot be delivered") {
		t.Error("the first event was given to the fleet before there was a connection")
	}
	modeIs := func(want config.Mode) {
		t.Helper()
		w.await("mode "+string(want), func() bool { return w.service("web").Mode == string(want) })
	}
	path := write("modes: {web: monitor}\ndeny: ['203.0.113.0/24 # the fleet']\n")
	mustSay("+ deny 203.0.113.0/24", "diff", path)
	if out, err := tg("apply", path, "--canary", "gate1", "--hold", "100ms"); err == nil || !strings.Contains(out, "reports every 10s") {
		t.Errorf("%v: %s", err, out)
	}
	mustSay("in force at every node", "apply", path)
	mustSay("as configured, now 12345", "diff", write("limits: {synack_limit: 12345}\n"))
	mustSay("in force at every node", "apply", write("limits: {source_limits.new_per_second: 4321}\n"))
	w.await("the limit of a source", func() bool {
		s := w.status().SourceLimits
		return s != nil && s.NewPerSecond == 4321 && s.Action == config.LimitReport
	})
	if out, err := tg("diff", write("limits: {synack_limit: -1, max_flows: 7}\n")); err == nil || !strings.Contains(out, "limits.max_flows: a fleet cannot set it") {
		t.Errorf("%v: %s", err, out)
	}
	mustSay("in force at every node", "apply", write("modes: {web: monitor}\nlimits: {synack_limit: 12345}\n"))
	w.await("the change of a limit", func() bool {
		out, err := tg("events", "--json")
		return err == nil && strings.Contains(out, `"changed":"synack_limit`)
	})
	path = write("modes: {web: monitor}\ndeny: ['203.0.113.0/24 # the fleet']\n")
	mustSay("in force at every node", "apply", path)
	modeIs(config.ModeMonitor)
	out, errs, err := w.tidegateRun("why", "203.0.113.9", fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
	if err != nil || !strings.Contains(out, "the fleet") || !strings.Contains(out, "deny 203.0.113.0/24") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	mustSay("in force at every node", "deny", "198.51.100.0/24", "--for", "1h", "--comment", "by one command")
	out, errs, err = w.tidegateRun("why", "198.51.100.9", fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
	if err != nil || !strings.Contains(out, "by one command") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	mustSay("in force at every node", "roll-secret", "--key-id", "01234567", "--from", "2047-01-31T12:00:00Z")
	if out, err := tg("status"); err == nil || !strings.Contains(out, "does not have secret 01234567, announced for 2047-01-31T12:00:00Z") {
		t.Errorf("%v: %s", err, out)
	}
	mustSay("in force at every node", "apply", path) // neither is in the file
	if out, err := tg("apply", write("modes: {web: asleep}\n")); err == nil || !strings.Contains(out, `"asleep" is no mode`) {
		t.Errorf("%v: %s", err, out)
	}

	// By hand, then without the servers, then started without them.
	if out, errs, err := w.tidegateRun("mode", "web", "always", "--instance", w.Instance); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	modeIs(config.ModeAlways)
	if out, errs, err := w.tidegateRun("mode", "web", "configured", "--instance", w.Instance); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	modeIs(config.ModeMonitor)
	w.must(servers.Process.Kill())
	_ = servers.Wait()
	g.AwaitLog("goes on with what it has")
	if out, err := tg("status"); err == nil || !strings.Contains(out, "nodes go on with what they have") {
		t.Errorf("without servers: %v: %s", err, out)
	}
	g.Stop()
	g = &gate{w.in.Launch("--clock-offset", "-8s")} // an epoch
	g.AwaitReady()
	modeIs(config.ModeMonitor)

	// They return, with what they have stored, and an earlier revision comes back.
	nats()
	w.await("the servers again", func() bool {
		_, err := tg("history")
		return err == nil
	})
	w.await("the node reports again", func() bool {
		out, err := tg("status")
		return err == nil && strings.Contains(out, "gate1")
	})
	w.await("its clock is named", func() bool {
		out, err := tg("status")
		return err != nil && strings.Contains(out, "its clock differs by -8s")
	})
	mustSay("in force", "apply", write("modes: {web: always}\n"))
	modeIs(config.ModeAlways)
	mustSay("in force", "rollback")
	modeIs(config.ModeMonitor)
}
