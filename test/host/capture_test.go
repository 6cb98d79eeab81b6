// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

// A capture has packets with the reasons of the decisions on them, as tshark shows them. No connection is lost when it begins and
// ends, and afterwards the packet path is as before.
func TestCapture(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	before := w.attachedPrograms()
	l := w.startLoad()
	file := filepath.Join(w.dir, "none.pcapng")
	p := w.in.Capture("-w", file, "--reason", "drop") // which nothing ends but its command
	if during := w.attachedPrograms(); during["XDP"] == before["XDP"] || during["TC ingress"] == before["TC ingress"] {
		t.Errorf("programs %v run as before", during)
	}
	p.Interrupt()
	w.await("the gate's programs", func() bool { return len(w.status().Capturing) == 0 })
	file = filepath.Join(w.dir, "all.pcapng")
	p = w.in.LaunchCommand("capture", "--instance", w.Instance, "-w", file, "--count", "400", "--duration", "20s") // which may end before anybody sees it begin
	l.more(300)
	p.AwaitEnd()
	if got := w.attachedPrograms(); got["XDP"] != before["XDP"] || got["TC ingress"] != before["TC ingress"] {
		t.Errorf("programs are %v, were %v", got, before)
	}
	if all := w.status().Capturing; len(all) != 0 {
		t.Errorf("status says that %v capture", all)
	}
	if !strings.HasPrefix(p.Stderr.String(), "400 packets in "+file) {
		t.Errorf("it says: %s", p.Stderr.String())
	}
	for _, family := range []string{"ip", "ipv6"} {
		harness.WantComment(t, file, family+" && tcp.flags.syn == 1", "tx: syn, cookie_sent; service web; xdp")
		harness.WantComment(t, file, family+" && tcp.flags == 0x010", "pass: cookie_valid, adopted; service web; tc ingress")
	}

	file = filepath.Join(w.dir, "some.pcapng")
	p = w.in.LaunchCommand("capture", "--instance", w.Instance, "-w", file, "--count", "5", "--reason", "cookie_valid", "--net", w.ClientAddr(false).String(), "--port", "80", "--sample", "2")
	l.more(40)
	p.AwaitEnd()
	if list := harness.CaptureComments(t, file, "ip.src == "+w.ClientAddr(false).String()); len(list) != 5 || strings.Contains(strings.Join(list, ""), "syn") {
		t.Errorf("captured of cookie_valid from one address: %q", list)
	}
	file = filepath.Join(w.dir, "none.pcapng")
	p = w.in.LaunchCommand("capture", "--instance", w.Instance, "-w", file, "--reason", "drop", "--duration", "1s")
	p.AwaitEnd()
	if !strings.HasPrefix(p.Stderr.String(), "0 packets") {
		t.Errorf("of drops: %s", p.Stderr.String())
	}
	l.end()
	l.noFailure()
}

// A capture ends with its command, and by itself if its daemon ends; the next start restores the gate's programs.
func TestCaptureKilled(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort))
	before := w.attachedPrograms()
	p := w.in.Capture("-w", filepath.Join(w.dir, "killed.pcapng"))
	out, errs, err := w.tidegateRun("capture", "-w", filepath.Join(w.dir, "second.pcapng"), "--instance", w.Instance)
	w.wantOneLine(err, out, errs, "somebody captures already")
	w.mustPingNew(1)
	p.Kill()
	w.await("the gate's programs", func() bool { return len(w.status().Capturing) == 0 })
	if got := w.attachedPrograms(); got["XDP"] != before["XDP"] || got["TC ingress"] != before["TC ingress"] {
		t.Errorf("programs are %v, were %v", got, before)
	}
	w.mustPingNew(1)

	p = w.in.Capture("-w", filepath.Join(w.dir, "orphan.pcapng"))
	g.Kill()
	<-p.Exited
	if p.Err == nil || !strings.Contains(p.Stderr.String(), "ended the capture") {
		t.Errorf("%v: %s", p.Err, p.Stderr.String())
	}
	w.mustPingNew(2)
	if out, errs, err := w.tidegateRun("status", "--instance", w.Instance); err != nil || !strings.Contains(out, "CAPTURE: its programs are still installed at egress tg-server, tc tg-server, xdp tg-server") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	w.start(w.webConfig(webPort))
	if all := w.status().Capturing; len(all) != 0 {
		t.Errorf("after a restart %v capture", all)
	}
	w.mustPingNew(2)
	p = w.in.Capture("-w", filepath.Join(w.dir, "again.pcapng"))
	w.mustPingNew(1)
	p.Interrupt()
	if p.Err != nil || !strings.Contains(p.Stderr.String(), " packets in ") {
		t.Errorf("Ctrl-C: %v: %s", p.Err, p.Stderr.String())
	}
}

// A full disk ends a capture with one line; clients notice nothing. A wrong request is refused in one line.
func TestCaptureRefused(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	small := filepath.Join(w.dir, "small")
	w.must(os.Mkdir(small, 0o700))
	w.must(unix.Mount("small", small, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() {
		if err := unix.Unmount(small, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	})
	before := w.attachedPrograms()
	p := w.in.Capture("-w", filepath.Join(small, "full.pcapng"), "--count", "100000")
	l := w.startLoad() // a few packets fill the file: not before the capture is known to run
	<-p.Exited
	w.wantOneLine(p.Err, p.Stdout.String(), p.Stderr.String(), "write "+small+"/full.pcapng: no space left on device", "traffic is not affected")
	w.await("the gate's programs", func() bool { return len(w.status().Capturing) == 0 })
	if got := w.attachedPrograms(); got["XDP"] != before["XDP"] || got["TC ingress"] != before["TC ingress"] {
		t.Errorf("programs are %v, were %v", got, before)
	}
	l.more(20)
	l.end()
	l.noFailure()
	for args, words := range map[string]string{
		"--reason nonsense":     "neither a counter (docs/counters.md) nor one of pass, drop, tx, redirect, hold",
		"--net nonsense":        "want ADDRESS or PREFIX",
		"--duration 2h":         "want 1ms to 1h0m0s",
		"--count 0":             "want a number from 1 to 1000000",
		"-w /nonsense/x.pcapng": "no such file or directory",
	} {
		out, errs, err := w.tidegateRun(append([]string{"capture", "--instance", w.Instance}, strings.Fields(args)...)...)
		if !strings.HasPrefix(args, "-w") {
			w.wantOneLine(err, out, errs, words)
		} else if err == nil || !strings.Contains(errs, words) {
			t.Errorf("%s: %v: %s", args, err, errs)
		}
	}
	w.await("the gate's programs", func() bool { return len(w.status().Capturing) == 0 })
}
