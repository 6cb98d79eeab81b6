// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
)

// A nat chain, even an empty one, concerns its own family, if connections are tracked; the
// legacy table does likewise.
func TestNATHooks(t *testing.T) {
	nft, legacy4, legacy6 := []string{"nft", "-f", "-"}, []string{"iptables-legacy-restore"}, []string{"ip6tables-legacy-restore"}
	const tracks = "table inet t { chain i { type filter hook input priority 0; ct state established accept; }; }\n"
	for _, c := range []struct {
		name, rules string
		load        []string
		v4, v6      bool
	}{
		{"nothing", "", nft, false, false},
		{"tracking", tracks, nft, false, false},
		{"nothing tracked", "table ip n { chain c { type nat hook postrouting priority srcnat; }; }", nft, false, false},
		{"ip", tracks + "table ip n { chain c { type nat hook postrouting priority srcnat; }; }", nft, true, false},
		{"ip6", tracks + "table ip6 n { chain c { type nat hook postrouting priority srcnat; }; }", nft, false, true},
		{"inet", tracks + "table inet n { chain c { type nat hook output priority 0; }; }", nft, true, true},
		{"no hook", tracks + "table ip n { chain c { accept; }; }", nft, false, false},
		{"masquerade", "table ip n { chain c { type nat hook postrouting priority srcnat; oifname \"x\" masquerade; }; }", nft, true, false},
		{"notrack", tracks + `table inet n { chain c { type nat hook output priority 0; }; }
			table inet r { chain p { type filter hook prerouting priority raw; tcp dport 80 notrack; }
			chain o { type filter hook output priority raw; tcp sport 80 notrack; }; }`, nft, false, false},
		{"notrack of another port", tracks + `table inet n { chain c { type nat hook output priority 0; }; }
			table inet r { chain p { type filter hook prerouting priority raw; tcp dport 81 notrack; }
			chain o { type filter hook output priority raw; tcp sport 81 notrack; }; }`, nft, true, true},
		{"iptables-legacy", "*nat\n-A POSTROUTING -o x -j MASQUERADE\nCOMMIT\n", legacy4, true, false},
		{"ip6tables-legacy", "*nat\n-A POSTROUTING -o x -j MASQUERADE\nCOMMIT\n", legacy6, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			run(t, ns, c.rules, c.load...)
			m := read(t, ns)
			for addr, want := range map[string]bool{"192.0.2.1:80": c.v4, "[2001:db8::1]:80": c.v6} {
				v := m.Judge(to(addr))
				if v.Has(NATHooks) != want || (v.Takeover == config.TakeoverTranslate) != want || (v.Reason() != "") != want {
					t.Errorf("%s: %+v, want nat hooks: %v", addr, v, want)
				}
			}
		})
	}
}

// Reading must not create the tables it looks for.
func TestReadingLoadsNoTable(t *testing.T) {
	ns := newNamespace(t)
	for range 2 {
		if m := read(t, ns); len(m.legacy) != 0 || m.Judge(to("192.0.2.1:80")).Takeover != config.TakeoverAdopt {
			t.Fatalf("tables %v, verdict %+v", m.legacy, m.Judge(to("192.0.2.1:80")))
		}
	}
}

// Whatever changes, the watcher reports it, and its survey is the new one.
func TestWatcher(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, "link add port0 type veth peer name far0\nlink add br0 type bridge\n", "ip", "-batch", "-")
	w := watch(t, ns)
	nft := []string{"nft", "-f", "-"}
	for _, step := range []struct {
		name, input string
		command     []string
		want        string // found; empty: adopt
	}{
		{"nat", "table ip n { chain c { type nat hook postrouting priority srcnat; masquerade; }; }", nft, NATHooks},
		{"no nat", "delete table ip n", nft, ""},
		{"rules", "table ip n { set ports { type inet_service; }\nchain c { type filter hook input priority 0; tcp dport @ports tcp flags syn drop; ct state new accept; }; }", nft, ""},
		{"an element of a set", "add element ip n ports { 80 }", nft, SYNRule},
		{"another", "delete element ip n ports { 80 }", nft, ""},
		{"a sysctl", "", []string{"sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_loose=0"}, LooseOff},
		{"none", "flush ruleset", nft, ""},
		{"a legacy rule", "*filter\n-A INPUT -p tcp --syn -j DROP\nCOMMIT\n", []string{"iptables-legacy-restore"}, SYNRule},
		{"another one of the same size", "*filter\n-A INPUT -p tcp ! --syn -j DROP\nCOMMIT\n", []string{"iptables-legacy-restore"}, NewNotSYN},
		{"an empty legacy table", "*filter\nCOMMIT\n", []string{"iptables-legacy-restore"}, ""},
		{"a link", "link set port0 master br0\n", []string{"ip", "-batch", "-"}, BridgePort},
	} {
		run(t, ns, step.input, step.command...)
		d := to("192.0.2.1:80", "port0")
		await(t, w, step.name, func(m *Machine) bool {
			v := m.Judge(d)
			return step.want == "" && v.Takeover == config.TakeoverAdopt || v.Has(step.want)
		})
	}
}

func watch(t *testing.T, ns *rig.Namespace) (w *Watcher) {
	t.Helper()
	if err := ns.Do(func() (err error) { w, err = Watch(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

const patience = 30 * time.Second

func await(t *testing.T, w *Watcher, what string, want func(*Machine) bool) {
	t.Helper()
	began := time.Now()
	end := time.After(patience)
	for !want(w.Machine()) {
		select {
		case <-w.Changed():
		case <-end:
			t.Fatalf("%s was not seen", what)
		}
	}
	t.Logf("%s was seen after %v", what, time.Since(began).Round(time.Millisecond))
}
