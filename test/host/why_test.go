// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/why"
	harness "tidegate/test/world"
)

// The decision is the real one, in every mode, and asking changes no counter.
func TestWhy(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	ask := func(dst netip.AddrPort, args ...string) (a why.Answer) {
		t.Helper()
		src := w.ClientAddr(dst.Addr().Is6())
		out, errs, err := w.tidegateRun(append([]string{"why", src.String(), dst.String(), "--json", "--instance", w.Instance}, args...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &a)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		return a
	}
	wants := func(a why.Answer, verdict, counter string, words ...string) {
		t.Helper()
		text := ""
		for _, s := range a.Steps {
			text += s.Name + " " + s.Text + "\n"
		}
		if a.Verdict != verdict || counter != "" && a.Reasons[counter] != 1 {
			t.Errorf("verdict %s with %v, want %s with %s\n%s", a.Verdict, a.Reasons, verdict, counter, text)
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("no %q in\n%s", word, text)
			}
		}
	}
	before := w.service("web").Counters["syn"]
	for _, ipv6 := range families() {
		at := w.ServerAddr(ipv6)
		wants(ask(netip.AddrPortFrom(at, webPort)), "answered", "cookie_sent", "service web", "mode always", "answer SYN-ACK", "window scale")
		wants(ask(netip.AddrPortFrom(at, 81)), "pass", "", "service none", "not concerned")
	}
	if out, errs, err := w.tidegateRun("mode", "web", "monitor", "--instance", w.Instance); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	wants(ask(netip.AddrPortFrom(w.ServerAddr(false), webPort)), "pass", "would_answer", "mode monitor")
	if after := w.service("web").Counters["syn"]; after != before {
		t.Errorf("the questions were counted: %d SYNs, before %d", after, before)
	}
	if out, errs, err := w.tidegateRun("why", "nonsense", "--instance", w.Instance); err == nil || !strings.Contains(errs, "want ADDRESS") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
}

// While a client connects, `why --watch` shows each decision about it, and about nobody else.
func TestWhyWatches(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	src, watch := w.ClientAddr(false).String(), func(args ...string) *harness.Process {
		p := w.in.LaunchCommand(append([]string{"why", w.ClientAddr(false).String(), "--watch", "1s", "--instance", w.Instance}, args...)...)
		p.Await("a capture", func() bool { return len(w.in.Status().Capturing) > 0 })
		return p
	}
	p := watch()
	w.mustPingNew(1) // by IPv4, and by IPv6
	p.AwaitEnd()
	out := p.Stdout.String()
	for _, want := range []string{"decision   answered", "watching packets from and to " + src, "  SYN " + src + ":", "1 × SYN: tx: syn, cookie_sent; service web; xdp", "1 × ACK: pass: cookie_valid, adopted; service web; tc ingress"} {
		// In generic mode a veth does not gather packets, and each ACK takes a turn.
		if !strings.Contains(strings.ReplaceAll(out, " after a turn at the end of the queue;", ""), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, w.ClientAddr(true).String()) {
		t.Errorf("packets of another source:\n%s", out)
	}
	p = watch("--json")
	p.AwaitEnd()
	if lines := strings.Split(strings.TrimSpace(p.Stdout.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"verdict":"answered"`) || lines[1] != `{"decisions":{},"beyond":0}` {
		t.Errorf("nobody connects, and the lines are %q", lines)
	}
	p = watch()
	p.AwaitEnd()
	if out := p.Stdout.String(); !strings.Contains(out, "the gate decided about no packet from or to "+src) {
		t.Errorf("nobody connects: %s", out)
	}
}
