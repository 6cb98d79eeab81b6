// SPDX-License-Identifier: Apache-2.0

// Package neighbours tests the gate together with other programs on its interface: the real xdp-filter and xdpdump of xdp-tools
// behind one dispatcher, and other TC programs. Meanwhile there is traffic, and none of it may be lost.
package neighbours

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(world.Main(m, &tidegate)) }

const port = 8080

type street struct {
	*rig.Hosts
	t  *testing.T
	in *world.Instance
}

func newStreet(t *testing.T, tag string) *street {
	t.Helper()
	world.NeedRoot(t)
	t.Parallel()
	h, err := rig.NewHosts(tag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	world.WriteSecret(t, dir)
	s := &street{h, t, &world.Instance{T: t, NS: h.Server, Binary: tidegate, Name: h.Instance, Config: filepath.Join(dir, "tidegate.yaml")}}
	for _, ipv6 := range world.Families() {
		world.Serve(t, h.Server, world.Echo, netip.AddrPortFrom(h.ServerAddr(ipv6), port))
	}
	return s
}

func (s *street) config(extra ...string) {
	s.in.Write(fmt.Sprintf("instance: %s\ninterfaces: [tg-server]\nsecret_file: secret\nservices:\n  - name: web\n    ports: [%d]\n    mode: always\n%s\n",
		s.Instance, port, strings.Join(extra, "\n")))
}

func (s *street) dial(ipv6 bool) (*net.TCPConn, error) {
	return world.Dial(s.Client, netip.AddrPortFrom(s.ServerAddr(ipv6), port))
}

// tool runs a program in the server's namespace.
func (s *street) tool(name string, args ...string) (out string, err error) {
	s.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		s.t.Fatalf("%s: apt-get install xdp-tools", name)
	}
	err = s.Server.Do(func() error {
		b, err := exec.Command(name, args...).CombinedOutput()
		out = string(b)
		return err
	})
	return out, err
}

func (s *street) must(name string, args ...string) string {
	s.t.Helper()
	out, err := s.tool(name, args...)
	if err != nil {
		s.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return out
}

// protects makes connections and expects cookies for them.
func (s *street) protects(l *world.Load, when string) {
	s.t.Helper()
	before := s.in.Counters()["cookie_sent"]
	l.More(20)
	if after := s.in.Counters()["cookie_sent"]; after < before+18 {
		s.t.Errorf("%s: %d cookies, then %d", when, before, after)
	}
}

// xdp-filter is there first; the gate joins it, is stopped, started and detached; the filter stays.
func TestFilterFirst(t *testing.T) {
	world.NeedDispatcher(t)
	s := newStreet(t, "n1")
	l := world.StartLoad(t, 10, world.InTurn(s.dial))
	s.must("xdp-filter", "load", "tg-server")
	l.More(20)
	s.config()
	g := s.in.Start()
	s.protects(l, "beside xdp-filter")
	status := s.must("xdp-loader", "status", "tg-server")
	if !strings.Contains(status, "xdpfilt_alw_all") || !strings.Contains(status, "tg_host_xdp") {
		t.Errorf("xdp-loader sees:\n%s", status)
	}
	if text, _, err := s.in.Run("status", "--instance", s.Instance); err != nil || !strings.Contains(text, "xdpfilt_alw_all (10), tidegate (20)") {
		t.Errorf("status: %v, %s", err, text)
	}
	// What the filter drops does not reach the gate.
	client := s.ClientAddr(false)
	s.must("xdp-filter", "ip", client.String(), "-m", "src")
	if c, err := (world.Client{Timeout: 1500 * time.Millisecond}).Dial(s.Client, netip.AddrPortFrom(s.ServerAddr(false), port)); err == nil {
		c.Close()
		t.Error("a source that xdp-filter denies connects")
	}
	s.must("xdp-filter", "ip", client.String(), "-m", "src", "-r")
	denied := len(l.Failures())
	g.Stop()
	l.More(20)
	g = s.in.Start()
	s.protects(l, "another process")
	g.Stop()
	s.in.Off("--now")
	l.More(20)
	if status := s.must("xdp-loader", "status", "tg-server"); !strings.Contains(status, "xdpfilt_alw_all") || strings.Contains(status, "tg_host_xdp") {
		t.Errorf("after off xdp-loader sees:\n%s", status)
	}
	s.must("xdp-filter", "unload", "tg-server")
	l.More(20)
	if all := l.Failures(); len(all) > denied {
		t.Errorf("lost: %v", all[denied:])
	}
}

// The gate is there first, with a dispatcher of its own, and xdp-filter joins and leaves. libxdp before 1.5.5 cannot, on
// kernels that compare what may change packets (Linux 6.13, and stable releases before it), and must leave everything as it is.
func TestGateFirst(t *testing.T) {
	world.NeedDispatcher(t)
	s := newStreet(t, "n2")
	l := world.StartLoad(t, 10, world.InTurn(s.dial))
	s.config("dispatcher: always", "dispatcher_priority: 7")
	g := s.in.Start()
	s.protects(l, "alone")
	if out, err := s.tool("xdp-filter", "load", "tg-server"); err == nil {
		s.protects(l, "with xdp-filter behind")
		if text, _, err := s.in.Run("status", "--instance", s.Instance); err != nil || !strings.Contains(text, "tidegate (7), xdpfilt_alw_all (10)") {
			t.Errorf("status: %v, %s", err, text)
		}
		g.Stop()
		l.More(20)
		g = s.in.Start()
		s.protects(l, "another process, with xdp-filter behind")
		s.must("xdp-filter", "unload", "tg-server")
	} else if !strings.Contains(out, "Failed to attach program tg_host_xdp to dispatcher: Operation not supported") {
		t.Errorf("xdp-filter: %v: %s", err, out)
	}
	s.protects(l, "alone again")
	g.Interrupt()
	l.More(20)
	if status := s.must("xdp-loader", "status", "tg-server"); !strings.Contains(status, "No XDP program loaded") {
		t.Errorf("after the end xdp-loader sees:\n%s", status)
	}
	l.End("a filter that joined and left")
}

// xdpdump captures at the gate's program, and leaves.
func TestDump(t *testing.T) {
	world.NeedDispatcher(t)
	s := newStreet(t, "n3")
	l := world.StartLoad(t, 5, world.InTurn(s.dial))
	s.config("dispatcher: always")
	g := s.in.Start()
	s.protects(l, "alone")
	file := filepath.Join(t.TempDir(), "packets")
	var out world.Output
	cmd := exec.Command("xdpdump", "-i", "tg-server", "--rx-capture", "entry,exit", "-w", file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := s.Server.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	world.Until(t, "xdpdump", func() bool {
		return strings.Contains(out.String(), "listening on") || cmd.ProcessState != nil
	})
	s.protects(l, "watched by xdpdump")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("xdpdump: %v: %s", err, out.String())
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
		t.Errorf("xdpdump has seen little: %v, %v, %s", info, err, out.String())
	}
	s.protects(l, "alone again")
	g.Interrupt()
	l.End("a look by xdpdump")
}
