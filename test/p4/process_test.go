// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// The real binary with a switch, started as users start it.

const metricsAddr = "127.0.0.1:9464" // in the namespace of the controller

var instances atomic.Int32

var built struct {
	sync.Once
	path string
	err  error
}

// builtTidegate builds tidegate once.
func builtTidegate(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		compiled.Lock()
		defer compiled.Unlock()
		if compiled.dir == "" {
			if compiled.dir, built.err = os.MkdirTemp("", "tidegate-p4-"); built.err != nil {
				return
			}
		}
		built.path = filepath.Join(compiled.dir, "tidegate")
		if out, err := exec.Command("go", "build", "-o", built.path, "tidegate/cmd/tidegate").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// daemon is `tidegate run` with plane: p4, one process after another.
type daemon struct {
	*world.Instance
	*world.Process
	past string // logs of earlier processes
}

func daemonText(instance, notifications, lines string) string {
	return fmt.Sprintf("instance: %s\nplane: p4\nmetrics: %s\np4: {thrift: %q, notifications: %q}\nsecret_file: secret\n%s", instance, metricsAddr, thriftAddr, notifications, lines)
}

// The configurations of these tests are valid; this needs no switch.
func TestConfigurationsAreValid(t *testing.T) {
	for name, lines := range map[string]string{"edge": fmt.Sprintf(edgeLines, "5s"), "cookie": cookieLines(), "auth-full": authLines()} {
		if _, err := config.Parse(name, []byte(daemonText("lab-1", "/n", lines))); err != nil {
			t.Error(err)
		}
	}
}

// A controller without a switch waits for it, reports that in its log and its status, and ends on Ctrl-C.
func TestControllerWaitsForItsSwitch(t *testing.T) {
	world.NeedRoot(t)
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.MakeNamespace(owner, "noswitch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	d := newDaemon(t, ns, "/n", fmt.Sprintf(edgeLines, "5s"))
	d.start()
	d.AwaitLog("waiting for the switch")
	if st := d.Status(); !st.Running || st.P4.Answers || st.P4.Why == "" {
		t.Errorf("before there is a switch: %+v", st.P4)
	}
	d.Interrupt()
	if d.logged("waiting for the switch") == 0 || d.ready() {
		t.Errorf("after its end: %s", d.logs())
	}
}

// newDaemon writes its configuration; lines are appended to those that all have. A nil namespace is that of the calling thread.
func newDaemon(t *testing.T, ns *rig.Namespace, notifications, lines string) *daemon {
	t.Helper()
	dir := t.TempDir()
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{Instance: &world.Instance{T: t, NS: ns, Binary: builtTidegate(t), Name: fmt.Sprintf("%s%s-p4x%d", rig.InstPrefix, owner, instances.Add(1)),
		Config: filepath.Join(dir, "switch.yaml")}}
	d.Write(daemonText(d.Name, notifications, lines))
	world.WriteSecret(t, dir)
	return d
}

func (d *daemon) start() {
	d.T.Helper()
	d.past = d.logs()
	d.Process = d.Launch()
}

// logs returns the logs of all its processes.
func (d *daemon) logs() string {
	if d.Process == nil {
		return ""
	}
	return d.past + d.Stderr.String()
}

// logged returns how often a text is in the logs of all its processes.
func (d *daemon) logged(text string) int { return strings.Count(d.logs(), text) }

// ready reports whether the process is ready.
func (d *daemon) ready() bool { return strings.Contains(d.Stdout.String(), "ready\n") }

// metric reads one row of /metrics.
func (d *daemon) metric(row string) (value string) {
	d.T.Helper()
	err := d.In(func() error {
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "tcp4", metricsAddr)
		if err != nil {
			return err
		}
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
		resp, err := client.Get("http://" + metricsAddr + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, row+" "); ok {
				value = strings.TrimSpace(rest)
			}
		}
		return err
	})
	if err != nil {
		d.T.Fatal(err)
	}
	return value
}
