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

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

// refused expects a start to fail with one line on stderr that has these words,
// and to leave nothing behind.
func (w *world) refused(config string, words ...string) {
	w.t.Helper()
	g := w.launch(config)
	w.await("end of a start that must fail", func() bool {
		select {
		case <-g.Exited:
			return true
		default:
			return false
		}
	})
	w.wantOneLine(g.Err, g.Stdout.String(), g.Stderr.String(), words...)
}

func (w *world) wantOneLine(err error, stdout, stderr string, words ...string) {
	w.t.Helper()
	if err == nil || stdout != "" {
		w.t.Errorf("succeeded (%v) or said something on stdout: %q", err, stdout)
	}
	if n := strings.Count(stderr, "\n"); n != 1 || !strings.HasPrefix(stderr, "tidegate: ") {
		w.t.Errorf("want one line, got %d: %q", n, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			w.t.Errorf("%q does not say %q", stderr, word)
		}
	}
}

// nothingInstalled expects no link, program, pin, state or lock of the instance.
func (w *world) nothingInstalled() {
	w.t.Helper()
	for _, path := range []string{w.pinDir(), w.statePath(), w.statePath() + ".new", w.lockPath()} {
		if _, err := os.Lstat(path); err == nil {
			w.t.Errorf("left behind: %s", path)
		}
	}
	for what, id := range w.attachedPrograms() {
		if id != 0 {
			w.t.Errorf("left behind: program %d at %s", id, what)
		}
	}
}

// attachedPrograms are the ids of the programs attached to the server's port.
func (w *world) attachedPrograms() map[string]ebpf.ProgramID {
	w.t.Helper()
	ids := map[string]ebpf.ProgramID{"XDP": 0, "TC ingress": 0}
	err := w.Server.Do(func() error {
		q, err := link.QueryPrograms(link.QueryOptions{Target: w.ServerPort.Index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return err
		}
		for _, p := range q.Programs {
			ids["TC ingress"] = p.ID
		}
		out, err := exec.Command("ip", "-details", "link", "show", "dev", w.ServerPort.Name).Output()
		if _, after, found := strings.Cut(string(out), "prog/xdp id "); found {
			for _, ch := range strings.Fields(after)[0] {
				ids["XDP"] = ids["XDP"]*10 + ebpf.ProgramID(ch-'0')
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func TestStartRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(w *world)
		config func(w *world) string
		words  []string
	}{
		"missing interface": {
			config: func(w *world) string { return strings.Replace(w.webConfig(webPort), "tg-server", "eth7", 1) },
			words:  []string{"interface eth7", "not found", "ip link"}},
		"syncookies off": {
			config: func(w *world) string { return w.webConfig(webPort, adopting) },
			spoil:  func(w *world) { w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "0") },
			words:  []string{"net.ipv4.tcp_syncookies is 0", "takeover: auto"}},
		"secret open to others": {
			spoil: func(w *world) { w.must(os.Chmod(w.secret, 0o644)) },
			words: []string{"mode 0644", "chmod 600 "}},
		"no secret": {
			spoil: func(w *world) { w.must(os.Remove(w.secret)) },
			words: []string{"does not exist", "tidegate keygen "}},
		"unknown field": {
			config: func(w *world) string { return w.webConfig(webPort, "epocs: 8s") },
			words:  []string{"tidegate.yaml:4", "epocs", "did you mean epoch?"}},
		"port out of range": {
			config: func(w *world) string { return strings.Replace(w.webConfig(webPort), "[80]", "[70000]", 1) },
			words:  []string{"tidegate.yaml:6", "services[0].ports", "70000 is out of range", "1 to 65535"}},
		"overlap": {
			config: func(w *world) string {
				return w.webConfig(webPort) + "  - name: two\n    ports: [80]\n    mode: always\n"
			},
			words: []string{"tidegate.yaml:8", "port 80 is claimed by web of line 5"}},
		"too many entries": {
			config: func(w *world) string {
				var prefixes []string
				for i := range 17 {
					prefixes = append(prefixes, fmt.Sprintf("10.%d.0.0/16", i))
				}
				return w.topConfig() + "services:\n  - name: web\n    prefixes: [" + strings.Join(prefixes, ", ") + "]\n    ports: [\"1-65535\"]\n    mode: always\n"
			},
			words: []string{"prefixes times ports", "1048576"}},
		"XDP program of somebody else": {
			spoil: func(w *world) { w.foreignXDP() },
			words: []string{"tg-server", "another XDP program is attached", "ip -d link show dev tg-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			config := w.webConfig(webPort)
			if c.config != nil {
				config = c.config(w)
			}
			if c.spoil != nil {
				c.spoil(w)
			}
			w.refused(config, c.words...)
			if name != "XDP program of somebody else" {
				w.nothingInstalled()
			} else if got := w.attachedPrograms(); got["TC ingress"] != 0 || got["XDP"] == 0 {
				t.Errorf("attached: %v", got)
			}
			w.mustPingNew(1)
		})
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// foreignXDP attaches a foreign program to the server's port.
func (w *world) foreignXDP() {
	w.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	w.must(err)
	l, err := w.ServerPort.AttachXDP(prog)
	w.must(err)
	prog.Close()
	w.t.Cleanup(func() { l.Close() })
}

// Without root there is one line, which says so.
func TestStartWithoutRoot(t *testing.T) {
	w := newWorld(t)
	// A directory that everybody can enter, with the binary and a readable file.
	dir, err := os.MkdirTemp("/tmp", "tidegate-nobody-")
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w.must(os.Chmod(dir, 0o755))
	exe, conf := filepath.Join(dir, "tidegate"), filepath.Join(dir, "tidegate.yaml")
	text, err := os.ReadFile(tidegate)
	w.must(err)
	w.must(os.WriteFile(exe, text, 0o755))
	w.must(os.WriteFile(conf, []byte(w.webConfig(webPort)), 0o644))
	var out, errs harness.Output
	cmd := exec.Command(exe, "run", "-c", conf)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	w.must(w.Server.Do(cmd.Start))
	w.wantOneLine(cmd.Wait(), out.String(), errs.String(), "needs CAP_BPF", "sudo")
	w.nothingInstalled()
}

// An instance runs once. The second start changes nothing of the first.
func TestSecondStartRefused(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.mustPingNew(2)
	before := w.attachedPrograms()
	w.refused(w.webConfig(webPort), "already running", "stop it", "instance:")
	if after := w.attachedPrograms(); after["XDP"] != before["XDP"] || after["TC ingress"] != before["TC ingress"] || before["XDP"] == 0 {
		t.Errorf("attached programs were %v and are %v", before, after)
	}
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(3 * len(families()))})
	if !w.status().Running {
		t.Error("status says that it does not run")
	}
}

// A start that fails half-way leaves what an earlier one installed unchanged.
func TestFailingStartKeepsWhatRan(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	g.Kill()
	before := w.attachedPrograms()
	// The second interface has a foreign program: detected after the first
	// one's links have been taken over.
	w.addBusyInterface("tg-busy")
	w.refused(strings.Replace(w.webConfig(webPort), "[tg-server]", "[tg-server, tg-busy]", 1),
		"tg-busy", "another XDP program is attached")
	if after := w.attachedPrograms(); after["XDP"] != before["XDP"] || after["TC ingress"] != before["TC ingress"] || before["XDP"] == 0 {
		t.Errorf("attached programs were %v and are %v", before, after)
	}
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopted": uint64(3 * len(families()))})
	if w.status().Running {
		t.Error("status says that it runs")
	}
	w.start(w.webConfig(webPort))
	w.mustPingNew(1)
}

// addBusyInterface makes an interface of the server with an XDP program on it.
func (w *world) addBusyInterface(name string) {
	w.t.Helper()
	w.must(w.Server.Do(func() error {
		return exec.Command("ip", "link", "add", name, "type", "veth", "peer", "name", name+"p").Run()
	}))
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	w.must(err)
	w.must(w.Server.Do(func() error {
		index, err := interfaceIndex(name)
		if err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: link.XDPGenericMode})
		if err == nil {
			w.t.Cleanup(func() { l.Close() })
		}
		return err
	}))
	prog.Close()
}

// interfaceIndex resolves on the calling thread, in its namespace.
func interfaceIndex(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req)
	return int(req.Uint32()), err
}

// A bad configuration at a reload is one log line and no change: counters
// continue, connections are adopted.
func TestReloadRefused(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	n := uint64(len(families()))
	for i, bad := range []string{
		"services: [",
		strings.Replace(w.webConfig(webPort), "[80]", "[80, 70000]", 1) + "    nonsense: 1\n",
		w.webConfig(webPort, "epoch: 4s"),
		strings.Replace(w.webConfig(webPort), "tg-server", "eth7", 1),
	} {
		before, all := w.attachedPrograms(), len(g.Log("level=ERROR"))
		g.Reload(bad, "level=ERROR", "reload refused")
		if after := w.attachedPrograms(); after["XDP"] != before["XDP"] || after["TC ingress"] != before["TC ingress"] {
			t.Errorf("attached programs were %v and are %v", before, after)
		}
		if got := len(g.Log("level=ERROR")) - all; got != 1 {
			t.Errorf("%d lines of error, want one", got)
		}
		w.mustPingNew(1)
		w.wantCounters(map[string]uint64{"adopted": n * uint64(i+2)})
	}
}

// Services come, go and change while the gate runs, and keep their counters.
func TestReloadChangesServices(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.echoServer(81)
	g := w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	n := uint64(len(families()))
	ping81 := func() {
		t.Helper()
		for _, ipv6 := range families() {
			w.must(w.pingNew(ipv6, 81))
		}
	}
	ping81()

	both := w.webConfig(webPort) + "  - name: other\n    ports: [81]\n    mode: always\n"
	g.Reload(both, "msg=reloaded", "services=2")
	w.mustPingNew(1)
	ping81()
	w.wantCounters(map[string]uint64{"adopted": 2 * n})
	if c := w.service("other").Counters; c["adopted"] != n || c["syn"] != n {
		t.Errorf("the new service counts %v", c)
	}

	g.Reload(strings.Replace(both, "mode: always", "mode: off", 1), "msg=reloaded", "services=2")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": 2 * n, "syn": 2 * n})

	g.Reload(both, "msg=reloaded", "services=2")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": 3 * n})

	g.Reload(w.topConfig()+"services:\n  - name: other\n    ports: [81]\n    mode: always\n", "msg=reloaded", "services=1")
	w.mustPingNew(1)
	ping81()
	if c := w.service("other").Counters; c["adopted"] != 2*n {
		t.Errorf("the service that stayed counts %v", c)
	}

	// Its old name returns as a new service: its counters start at zero.
	g.Reload(both, "msg=reloaded", "services=2")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": n})
}

// The longest prefix with the port decides; an exception is such a prefix.
func TestPrefixes(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort) + "  - name: exception\n    prefixes: [" + w.ServerAddr(false).String() + "]\n    ports: [80]\n    mode: \"off\"\n")
	w.mustPingNew(1)
	adopted := uint64(len(families()) - 1) // all but IPv4
	w.wantCounters(map[string]uint64{"adopted": adopted, "syn": adopted})
}
