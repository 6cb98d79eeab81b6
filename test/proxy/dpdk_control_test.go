// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/dpdk"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// control is a tidegate-dpdk with two ports without traffic, and its control socket.
type control struct {
	t       *testing.T
	conn    net.Conn
	answers *bufio.Reader
	stderr  *harness.Output
	prefix  string // by which telemetry finds it
	socket  string
}

func newControl(t *testing.T) *control {
	t.Helper()
	harness.NeedRoot(t)
	program, err := dpdk.Find("tidegate-dpdk")
	if err != nil {
		t.Fatal(err)
	}
	c := &control{t: t, stderr: new(harness.Output)}
	socket, prefix := filepath.Join(t.TempDir(), "s"), fmt.Sprintf("tg-control-%d", os.Getpid())
	c.prefix, c.socket = prefix, socket
	cmd := exec.Command(program, "-l", "0", "--no-huge", "--no-pci", "--no-shconf", "-m", "64", "--file-prefix", prefix,
		"--vdev", "net_null0,no-rx=1", "--vdev", "net_null1,no-rx=1",
		"--", "--socket", socket, "--max-flows", "1024", "--max-sources", "1024", "--buffers", "1023", "--idle-us", "1000")
	cmd.Stderr = c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.conn != nil {
			_ = c.conn.Close()
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("tidegate-dpdk: %v: %s", err, c.stderr.String())
		}
		_ = os.RemoveAll(dpdk.RuntimeDir(prefix))
	})
	harness.Await(t, "the control socket", patience, 10*time.Millisecond, func() bool {
		c.conn, err = net.Dial("unix", socket)
		return err == nil
	})
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	c.answers = bufio.NewReader(c.conn)
	return c
}

// say sends lines and `commit`, and returns the answer.
func (c *control) say(lines ...string) string {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(strings.Join(append(lines, "commit\n"), "\n"))); err != nil {
		c.t.Fatal(err)
	}
	answer, err := c.answers.ReadString('\n')
	if err != nil {
		c.t.Fatalf("no answer to %q: %v; %s", lines, err, c.stderr.String())
	}
	return strings.TrimSpace(answer)
}

// A wrong line on the control socket changes nothing, gets an error that names it, and is never
// repeated: it may contain a key.
func TestDPDKControlLines(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	c := newControl(t)
	dir := t.TempDir()
	part, other := filepath.Join(dir, "part-of-a-block"), filepath.Join(dir, "other")
	for file, n := range map[string]int{part: 63, other: 128} {
		if err := os.WriteFile(file, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.Repeat("c0ffee42", 4)
	for _, wrong := range []struct{ line, name string }{
		{"forget", "forget"},
		{"forget 0", "forget"},
		{"forget -1", "forget"},
		{"forget 1x", "forget"},
		{"forget 99999999", "forget"},
		{"forget 18446744073709551617", "forget"}, // 1 in 64 bits
		{"swap tables", "swap"},
		{"key 7 " + key + "zz", "key"},
		{"key x " + key, "key"},
		{"key 7 " + key + " " + key, "key"},
		{"key-slots -1", "key-slots"},
		{"epoch-length 8000000000s", "epoch-length"},
		{"port 80 1 2", "port"},
		{"port -1 1", "port"},
		{"service 1 1460 1440 65535 7 1 1 1 2 0 0 0 50 9", "service"},
		{"service 1 70000 1440 65535 7 1 1 1 2 0 0 0", "service"},
		{"service 1 1460 1440 65535 7 1 1 1 3 0 0 0", "service"}, // auto, and not automatic
		{"service 1 1460 1440 65535 7 1 1 1 3 0 0 0 0 2 0", "service"},
		{"service 1  1460 1440 65535 7 1 1 1 2 0 0 0", "service"},
		{"service 1 1460 1440 65535 7 1 1 1 2 0 0 0 ", "service"},
		{"place 1", "place"},
		{"place 1024 1", "place"},
		{"place 1 2", "place"},
		{"place 1 1 1", "place"},
		{"local 4 32 c6120050000000000000000000000000 1", "local"},
		{"clear all", "clear"},
		{"lists /nowhere-at-all", "lists: No such file or directory"},
		{"lists " + part, "lists: the file is no table"},
		{"lists " + other, "lists: the file is no table"},
		{"lists " + dir, "lists: the file is no table"},
		{"kye 7 " + key, ""},
		{key, ""},
	} {
		answer := c.say("forwarding bridge", wrong.line, "forwarding router")
		if !strings.HasPrefix(answer, "error: line 2: "+wrong.name) {
			t.Errorf("%q was answered with %q, want an error of line 2 that names %q", wrong.line, answer, wrong.name)
		}
		if strings.Contains(answer, "c0ffee42") {
			t.Errorf("the answer to %q repeats what may be a key: %q", wrong.line, answer)
		}
		if answer := c.say(); answer != "ok" {
			t.Errorf("after %q, a commit of nothing was answered with %q", wrong.line, answer)
		}
	}
	for _, right := range []string{"forget 1", "forget 255", "swap flows", "swap sources", "key 7 " + key,
		"service 1 1460 1440 65535 7 1 1 1 2 0 0 0", "service 1 1460 1440 65535 7 1 1 1 2 0 0 0 50",
		"service 1 1460 1440 65535 7 1 1 1 3 0 0 0 50 1 1", "place 1023 1", "place 1023 0", "port 80 1", "clear"} {
		if answer := c.say(right); answer != "ok" {
			t.Errorf("%q was answered with %q", strings.Replace(right, key, "KEY", 1), answer)
		}
	}
	if strings.Contains(c.stderr.String(), "c0ffee42") {
		t.Error("what may be a key stands in the log")
	}
}

// The detector's counts are no part of a change. When the client has gone, what is answered for stays, and the next one reads the
// same counts.
func TestDPDKControlCounts(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	c := newControl(t)
	counts := func() (lines []string) {
		t.Helper()
		for len(lines) == 0 || lines[len(lines)-1] != "ok" {
			line, err := c.answers.ReadString('\n')
			if err != nil {
				t.Fatalf("after %q: %v", lines, err)
			}
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines
	}
	if answer := c.say("service 1 1460 1440 65535 7 1 1 1 2 0 0 0", "service 7 1460 1440 65535 7 1 1 1 3 0 0 0 0 1 1", "place 9 1"); answer != "ok" {
		t.Fatal(answer)
	}
	// In the middle of a change that turns out to be wrong.
	if _, err := c.conn.Write([]byte("place 9 0\ncounts\nplace 9 9\ncommit\n")); err != nil {
		t.Fatal(err)
	}
	if got := counts(); !slices.Equal(got, []string{"service 7 0 0 0 0 0 0", "ok"}) {
		t.Errorf("counts: %q", got)
	}
	if line, err := c.answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "error: line 2: place") {
		t.Errorf("the change was answered with %q, %v", line, err)
	}
	before, err := dpdk.ReadConfig(c.prefix, 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.conn.Write([]byte("place 9 0\n")); err != nil { // half a change
		t.Fatal(err)
	}
	_ = c.conn.Close()
	c.conn = nil
	next, err := dpdk.Dial(c.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	got, err := next.Counts()
	if err != nil || len(got.Places) != 0 || len(got.Services) != 1 {
		t.Errorf("the next client reads %+v, %v", got, err)
	}
	if _, there := got.Services[7]; !there {
		t.Errorf("the next client reads %+v", got)
	}
	after, err := dpdk.ReadConfig(c.prefix, 7)
	if err != nil || !maps.EqualFunc(before, after, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("the configuration was %s, and is %s, %v", before, after, err)
	}
	if err := next.Apply([]string{"place 9 0"}); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the place to be off", func() bool {
		now, err := dpdk.ReadConfig(c.prefix, 7)
		return err == nil && string(now["places_on"]) != string(after["places_on"])
	})
}
