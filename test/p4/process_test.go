// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"syscall"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/internal/status"
	"tidegate/test/world"
)

// The real binary beside a switch, as a user starts it.

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
	t        *testing.T
	do       func(func() error) error // where it runs
	config   string
	instance string

	cmd   *exec.Cmd
	said  *lockedBuffer // on stderr
	ready chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func daemonText(instance, notifications, lines string) string {
	return fmt.Sprintf("instance: %s\nplane: p4\nmetrics: %s\np4: {thrift: %q, notifications: %q}\nsecret_file: secret\n%s", instance, metricsAddr, thriftAddr, notifications, lines)
}

// The configurations of these tests are valid, also where there is no switch to try them on.
func TestConfigurationsAreValid(t *testing.T) {
	for name, lines := range map[string]string{"edge": fmt.Sprintf(edgeLines, "5s"), "cookie": cookieLines(), "auth-full": authLines()} {
		if _, err := config.Parse(name, []byte(daemonText("lab-1", "/n", lines))); err != nil {
			t.Error(err)
		}
	}
}

// newDaemon writes its configuration; lines follow those that every one has.
func newDaemon(t *testing.T, do func(func() error) error, notifications, lines string) *daemon {
	t.Helper()
	dir := t.TempDir()
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, do: do, config: filepath.Join(dir, "switch.yaml"), instance: fmt.Sprintf("%s%s-p4x%d", rig.InstPrefix, owner, instances.Add(1))}
	text := daemonText(d.instance, notifications, lines)
	for name, content := range map[string]string{"switch.yaml": text, "secret": strings.Repeat("5a", 32) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if d.cmd != nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
		(&world.Instance{Name: d.instance}).Forget()
		if t.Failed() {
			t.Logf("the controller said:\n%s", d.said)
		}
	})
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	if d.said == nil {
		d.said = &lockedBuffer{}
	}
	d.cmd, d.ready = exec.Command(builtTidegate(d.t), "run", "-c", d.config), make(chan struct{})
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.cmd.Stderr = d.said
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.do(d.cmd.Start); err != nil {
		d.t.Fatal(err)
	}
	ready := d.ready
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				close(ready)
			}
		}
	}()
}

func (d *daemon) awaitReady() {
	d.t.Helper()
	select {
	case <-d.ready:
	case <-time.After(patience):
		d.t.Fatalf("the controller is not ready: %s", d.said)
	}
}

// kill ends it silently.
func (d *daemon) kill() {
	d.t.Helper()
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
	d.cmd = nil
}

// stop ends it as Ctrl-C does: the switch then forwards everything.
func (d *daemon) stop() { d.end(syscall.SIGINT) }

func (d *daemon) end(how syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(how); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("after %s: %v", how, err)
	}
	d.cmd = nil
}

func (d *daemon) await(what string, reached func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("timed out waiting for: %s; it said %s", what, d.said)
		}
	}
}

func (d *daemon) awaitSaid(text string) {
	d.t.Helper()
	d.await(text, func() bool { return strings.Contains(d.said.String(), text) })
}

// status is `tidegate status --json`.
func (d *daemon) status() (st status.Status) {
	d.t.Helper()
	cmd := exec.Command(builtTidegate(d.t), "status", "--instance", d.instance, "--json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := d.do(cmd.Start); err != nil {
		d.t.Fatal(err)
	}
	if err := errors.Join(cmd.Wait(), json.Unmarshal(out.Bytes(), &st)); err != nil {
		d.t.Fatalf("status: %v: %s", err, said.String())
	}
	return st
}

// metric reads one row of /metrics.
func (d *daemon) metric(row string) (value string) {
	d.t.Helper()
	err := d.do(func() error {
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
		d.t.Fatal(err)
	}
	return value
}
