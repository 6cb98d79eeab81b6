// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/rig"
	"tidegate/internal/routers"
	harness "tidegate/test/world"
)

// frr is a real router: FRRouting's zebra, staticd and bgpd.
type frr struct {
	w   *world
	dir string
	all []*rig.Process
	out harness.Output
}

// frrConfig is what docs/routers.md tells users to write, with this test's addresses.
func (w *world) frrConfig() string {
	w.t.Helper()
	page, err := os.ReadFile("../../docs/routers.md")
	w.must(err)
	_, rest, _ := strings.Cut(string(page), "\n## The router (FRRouting)\n\n```\n")
	config, _, found := strings.Cut(rest, "```\n")
	if !found {
		w.t.Fatal("docs/routers.md has no configuration of FRRouting")
	}
	return strings.NewReplacer("203.0.113.2 ", "198.18.3.1 ", "198.51.100.0/24", "203.0.113.0/24", "SECRET", password).Replace(config)
}

// What the page tells to add for FlowSpec.
const frrFlow = `router bgp 64500
 no bgp ebgp-requires-policy
 address-family ipv4 flowspec
  neighbor 198.18.3.1 activate
 exit-address-family
`

func (w *world) frr(more string) *frr {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "tg-frr-") // of FRR's own user, which cannot enter the test's
	w.must(err)
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &frr{w: w, dir: dir}
	w.must(os.WriteFile(filepath.Join(f.dir, "conf"), []byte("frr defaults traditional\nlog stdout\n"+w.frrConfig()+more), 0o644))
	w.mustRun(w.Client, "chown", "-R", "frr:frr", dir)
	f.start("zebra", "staticd", "bgpd")
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("router:\n%s%s%s%s", f.show("show bgp summary"), f.show("show bgp ipv4 unicast"), f.show("show bgp ipv4 flowspec detail"), f.show("show ip route"))
			w.t.Logf("bgpd:\n%s", f.out.String())
		}
		f.stop()
	})
	return f
}

func (f *frr) start(daemons ...string) {
	f.w.t.Helper()
	for _, d := range daemons {
		// Each reads of the one file what is its own, and complains of the rest.
		p, err := rig.StartProcess(f.w.Client, -1, nil, &f.out, "/usr/lib/frr/"+d, "-i", filepath.Join(f.dir, d+".pid"),
			"-z", filepath.Join(f.dir, "zserv"), "--vty_socket", f.dir, "-P", "0", "-f", filepath.Join(f.dir, "conf"))
		f.w.must(err)
		f.all = append(f.all, p)
		if d == "zebra" {
			f.w.until("zebra", func() bool {
				select {
				case <-p.Exited:
					f.w.t.Fatal(p.Failure())
				default:
				}
				return rig.PathExists(filepath.Join(f.dir, "zserv"))
			})
		}
	}
	f.w.until("bgpd", func() bool { return strings.Contains(f.show("show bgp summary json"), "198.18.3.1") })
}

func (f *frr) stop() {
	for _, p := range f.all {
		p.Stop(5 * time.Second)
	}
}

// show is the output of a command.
func (f *frr) show(command string) string {
	out, err := f.w.run(f.w.Client, "vtysh", "--vty_socket", f.dir, "-c", command)
	if err != nil {
		return ""
	}
	return out
}

// kernel is the router's forwarding table for a prefix.
func (f *frr) kernel(prefix string) string {
	out, _ := f.w.run(f.w.Client, "ip", "route", "show", prefix, "proto", "bgp")
	return strings.TrimSpace(out)
}

// A real router sends the service's traffic to the gate while that protects it, discards a source that handshakes have proven and no
// other, neither a forged one nor one in `never`, discards a destination by hand only, and forgets everything when the gate is killed.
func TestFRRSourceRTBH(t *testing.T) {
	w := newWorld(t)
	f := w.frr("")
	g := w.start(w.config("offenders: source, expires: 3s, service_prefixes: [203.0.113.0/24], settle: 1s", secured))
	w.until("the router's kernel has the service's prefix", func() bool {
		return strings.HasPrefix(f.kernel("203.0.113.0/24"), "203.0.113.0/24 ") && strings.Contains(f.kernel("203.0.113.0/24"), "via 198.18.3.1 ")
	})
	w.must(w.connect(offender, harness.Patience))
	w.noPrivileges(g.Cmd.Process.Pid)

	// Forged SYNs and ACKs of a third address, far more than the rate: they prove nothing.
	forged := netip.MustParseAddr("198.51.100.99")
	syns := harness.NewSYNs(t, w.ClientPort, w.ServerPort)
	for i := range uint16(2000) {
		syns.Send(netip.AddrPortFrom(forged, 1024+i), w.toGate, nil)
		syns.SendACK(netip.AddrPortFrom(forged, 1024+i), w.toGate)
	}
	w.until("the gate has judged the forged ACKs", func() bool { return w.in.Counters()["cookie_invalid"] >= 2000 })

	endPartner, endOffender := w.offend(partner), w.offend(offender)
	w.until("the router discards the offender", func() bool {
		return strings.HasPrefix(f.kernel("198.51.100.77"), "blackhole 198.51.100.77")
	})
	if err := w.connect(offender, time.Second); err == nil {
		t.Error("the offender still connects")
	}
	w.until("the partner has offended, and is spared", func() bool { return w.state().Spared > 0 })
	endPartner()
	w.must(w.connect(partner, harness.Patience))
	for _, r := range w.state().Routes {
		if r.Prefix.Addr() != offender.Addr() {
			t.Errorf("%s is announced; only the offender may be", r.Route)
		}
	}
	detail := f.show("show bgp ipv4 unicast 198.51.100.77/32")
	if !strings.Contains(detail, "blackhole") || !strings.Contains(detail, "no-export") {
		t.Errorf("communities: %s", detail)
	}
	endOffender()

	// By hand: refused for what is not ours, and what is discarded is.
	if _, errs, err := w.in.Run("bgp", "--instance", w.Instance, "announce", "destination", "192.0.32.0/24"); err == nil || !strings.Contains(errs, "bgp.own") {
		t.Errorf("another's destination: %v: %s", err, errs)
	}
	if out := w.bgp("announce", "destination", "203.0.113.9", "--for", "1h", "--why", "ticket 7"); !strings.Contains(out, "legitimate clients") {
		t.Errorf("the cost is not said: %s", out)
	}
	w.until("the router discards the destination", func() bool { return strings.HasPrefix(f.kernel("203.0.113.9"), "blackhole 203.0.113.9") })
	w.bgp("withdraw", "destination", "203.0.113.9")
	w.until("the destination is back", func() bool { return f.kernel("203.0.113.9") == "" })

	w.until("the offender's route expires", func() bool { return f.kernel("198.51.100.77") == "" })
	w.must(w.connect(offender, harness.Patience))

	w.bgp("announce", "source", "198.51.100.200", "--for", "1h")
	w.until("a source by hand", func() bool { return f.kernel("198.51.100.200") != "" })
	g.Kill()
	w.until("all is withdrawn when the gate is killed", func() bool {
		return f.kernel("198.51.100.200") == "" && f.kernel("203.0.113.0/24") == ""
	})
}

// FlowSpec to a real router, by proof: TCP from the offender to what it attacks, with rate 0; and withdrawn by hand, which lasts.
func TestFRRFlow(t *testing.T) {
	w := newWorld(t)
	f := w.frr(frrFlow)
	w.start(w.config("offenders: flow, service_prefixes: [203.0.113.0/24], settle: 0s", secured+", flowspec: yes"))
	w.until("session", w.sessionUp)
	end := w.offend(offender)
	defer func() { end() }()
	w.until("the gate announces a rule", func() bool { return w.announced(routers.Flow, "198.51.100.77/32") })
	rule := ""
	defer func() { t.Logf("rules:\n%s", rule) }()
	w.until("the router has the rule", func() bool {
		// FRR 8.4 prints the rule's parts on lines of their own.
		rule = f.show("show bgp ipv4 flowspec detail")
		return strings.Contains(rule, "Destination Address 203.0.113.1/32") && strings.Contains(rule, "Source Address 198.51.100.77/32") &&
			strings.Contains(rule, "IP Protocol = 6") && strings.Contains(rule, "FS:rate 0.0")
	})
	w.bgp("withdraw", "flow", "198.51.100.77", "203.0.113.1")
	w.until("the rule is gone", func() bool { return !strings.Contains(f.show("show bgp ipv4 flowspec detail"), "198.51.100.77") })
	spared := w.state().Spared
	w.until("it offends again, and is spared", func() bool { return w.state().Spared > spared+1 })
	if w.announced(routers.Flow, "198.51.100.77/32") {
		t.Error("what was withdrawn by hand came back")
	}
}

// An anycast gate withdraws its prefix when it cannot protect, announces it again when it can, and withdraws it before it drains.
func TestFRRAnycast(t *testing.T) {
	w := newWorld(t)
	f := w.frr("")
	config := w.config("service_prefixes: [203.0.113.0/24], settle: 1s", secured) + "drain: 1m\n"
	g := w.start(config)
	here := func() bool { return f.kernel("203.0.113.0/24") != "" }
	w.until("the prefix is announced", here)
	l, err := link.LoadPinnedLink(filepath.Join(w.in.PinDir(), "xdp-tg-server"), nil)
	w.must(err)
	defer l.Close()
	w.must(l.Detach())
	w.until("the prefix is withdrawn without a program", func() bool { return !here() })
	if out := w.bgp("list"); !strings.Contains(out, "NOT announced: not attached to tg-server") {
		t.Errorf("the reason is not said: %s", out)
	}
	g.Stop()
	g = w.start(config)
	w.until("the prefix is back after a restart", here)
	w.must(w.connect(offender, harness.Patience))

	// While it is taken down, connections drain, and new ones go elsewhere.
	g.Signal(syscall.SIGINT)
	w.until("the prefix is withdrawn during the drain", func() bool { return !here() })
	if g.Ended() {
		t.Error("the prefix went with the process, not before it")
	}
	g.Signal(syscall.SIGINT)
	g.AwaitEnd()
}
