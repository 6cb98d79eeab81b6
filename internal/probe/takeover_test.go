// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/internal/survey"
)

func TestJudgeTakeover(t *testing.T) {
	of := func(id string) Takeover {
		return Takeover{"web", []string{"0.0.0.0:80"}, config.TakeoverTranslate, "because", []survey.Finding{{ID: id, Reason: "because", Show: "nft x"}}}
	}
	always, monitor := config.Service{Name: "web", Mode: config.ModeAlways}, config.Service{Mode: config.ModeMonitor}
	adopts, translates := host{}, host{translates: true}
	want(t, adopts.judge(always, Takeover{"web", []string{"a", "b", "c", "d"}, config.TakeoverAdopt, "", nil}), OK, "a, b, c, 1 more: adopt")
	want(t, adopts.judge(always, of(survey.NATHooks)), Fail, "cut off")
	want(t, adopts.judge(monitor, of(survey.NATHooks)), Warn, "would be cut off")
	want(t, adopts.judge(always, of(survey.Limit)), Warn, "clients that it refuses can connect")
	want(t, adopts.judge(always, of(survey.UnknownRule)), Warn, "not known")
	want(t, adopts.judge(always, of(findMPTCP)), Warn, "left to the kernel")
	want(t, adopts.judge(always, of(findAbove)), Warn, "left to the kernel")
	want(t, translates.judge(always, of(survey.NATHooks)), OK, "translate: because")
}

// What decides for every listener is named for every listener, whatever the rules say: it comes first.
func TestWhatDecidesForEveryListener(t *testing.T) {
	const old = "bpf_sk_assign_tcp_reqsk is not in this kernel"
	for _, c := range []struct {
		takeover config.Takeover
		kernel   string
		want     string
	}{
		{config.TakeoverAuto, "", ""},
		{config.TakeoverAuto, old, old},
		{config.TakeoverTranslate, "", "configured: takeover: translate"},
		{config.TakeoverTranslate, old, "configured: takeover: translate"},
		{config.TakeoverAdopt, old, ""}, // does not start; the row of the kernel says so
	} {
		if got := allTranslated(c.takeover, c.kernel); got != c.want {
			t.Errorf("%s on a kernel %q: %q, want %q", c.takeover, c.kernel, got, c.want)
		}
	}
}

func TestDestinations(t *testing.T) {
	a := netip.MustParseAddr
	single := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::1/128")}
	for _, c := range []struct {
		listener string
		prefixes []netip.Prefix
		want     []netip.Addr
	}{
		{"0.0.0.0", everywhere, []netip.Addr{a("0.0.0.0")}},
		{"::", everywhere, []netip.Addr{a("0.0.0.0"), a("::")}},
		{"::", single, []netip.Addr{a("192.0.2.1"), a("2001:db8::1")}},
		{"0.0.0.0", single, []netip.Addr{a("192.0.2.1")}},
		{"192.0.2.7", everywhere, []netip.Addr{a("192.0.2.7")}},
		{"127.0.0.1", everywhere, nil},
	} {
		if got := destinations(listeners.Listener{Addr: a(c.listener)}, c.prefixes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.listener, got, c.want)
		}
	}
}

// In a namespace with rules: which listeners' clients would be cut off, and why.
func TestTakeoversAreForetold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.MakeNamespace(owner, "probe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	if err := ns.Do(func() error {
		l, err := lc.Listen(t.Context(), "tcp4", "0.0.0.0:80")
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const nat = "table ip n { chain c { type nat hook postrouting priority srcnat; oifname \"x\" masquerade; }; }\n"
	for _, c := range []struct {
		name      string
		mode      config.Mode
		rules     string
		worst     Status
		takeover  config.Takeover
		finding   string
		listeners string
	}{
		{"nothing", config.ModeAlways, "", OK, config.TakeoverAdopt, "", "0.0.0.0:80"},
		{"NAT", config.ModeAlways, nat, Fail, config.TakeoverTranslate, survey.NATHooks, "0.0.0.0:80"},
		{"NAT, monitored", config.ModeMonitor, nat, Warn, config.TakeoverTranslate, survey.NATHooks, "0.0.0.0:80"},
		{"a list of denied clients", config.ModeAlways, "table ip f { chain i { type filter hook input priority 0; ip saddr 198.51.100.1 tcp flags syn drop; }; }", Warn, config.TakeoverTranslate, survey.SYNRule, "0.0.0.0:80"},
		{"DNAT of a port without a listener", config.ModeAlways, "table ip n { chain c { type nat hook prerouting priority dstnat; tcp dport 81 dnat to 10.0.0.1:80; }; }", Fail, config.TakeoverTranslate, survey.DNAT, "0.0.0.0:81"},
	} {
		cfg := &config.Config{Role: config.RoleHost, Server: config.Server{Takeover: config.TakeoverAdopt},
			Services: []config.Service{{Name: "web", Mode: c.mode, Prefixes: everywhere, Ports: []config.PortRange{{First: 80, Last: 81}}}}}
		var checks []Check
		var found []Takeover
		if err := ns.Do(func() error {
			cmd := exec.Command("nft", "-f", "-")
			cmd.Stdin = strings.NewReader("flush ruleset\n" + c.rules)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("nft: %w\n%s", err, out)
			}
			checks, found = hostTakeovers(cfg)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(found, func(f Takeover) bool { return slices.Contains(f.Listeners, c.listeners) })
		if at < 0 || found[at].Takeover != c.takeover || len(found[at].Findings) > 0 != (c.finding != "") || c.finding != "" && found[at].Findings[0].ID != c.finding {
			t.Errorf("%s: %+v", c.name, found)
			continue
		}
		want(t, checks[at], c.worst, c.listeners)
	}
	checkSyncookies(t, ns)
	const old = "bpf_sk_assign_tcp_reqsk is not in this kernel"
	s := config.Service{Name: "web", Mode: config.ModeAlways, Prefixes: everywhere, Ports: []config.PortRange{{First: 80, Last: 80}}}
	for why, word := range map[string]string{"": "0.0.0.0:80: adopt", old: "0.0.0.0:80: translate: " + old} {
		h := host{translates: true, allTranslated: why}
		if err := ns.Do(func() (err error) {
			if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil {
				return fmt.Errorf("nft: %w\n%s", err, out)
			}
			h.machine = survey.Read()
			h.all, err = listeners.Scan()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		found := h.takeovers(s)
		if len(found) != 1 {
			t.Fatalf("%q: %+v", why, found)
		}
		want(t, h.judge(s, found[0]), OK, word)
	}
}

// Without the kernel's own cookies it adopts nothing, and the gate translates.
func checkSyncookies(t *testing.T, ns *rig.Namespace) {
	for value, want := range map[string]string{"0": "net.ipv4.tcp_syncookies is 0: the kernel adopts no connection", "1": CannotAdopt()} {
		if err := ns.SetSysctls([2]string{"net.ipv4.tcp_syncookies", value}); err != nil {
			t.Fatal(err)
		}
		if err := ns.Do(func() error {
			if got := cannotAdopt(); got != want {
				t.Errorf("net.ipv4.tcp_syncookies %s: %q, want %q", value, got, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
