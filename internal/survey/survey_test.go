// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab"
)

// A nat chain, even an empty one, concerns its own family; the legacy table does likewise.
func TestNATHooks(t *testing.T) {
	for _, c := range []struct {
		name, rules string
		load        []string
		v4, v6      bool
	}{
		{"nothing", "", []string{"nft", "-f", "-"}, false, false},
		{"ip", "table ip n { chain c { type nat hook postrouting priority srcnat; }; }", []string{"nft", "-f", "-"}, true, false},
		{"ip6", "table ip6 n { chain c { type nat hook postrouting priority srcnat; }; }", []string{"nft", "-f", "-"}, false, true},
		{"inet", "table inet n { chain c { type nat hook output priority 0; }; }", []string{"nft", "-f", "-"}, true, true},
		{"no hook", "table ip n { chain c { accept; }; }", []string{"nft", "-f", "-"}, false, false},
		{"iptables-legacy", "*nat\nCOMMIT\n", []string{"iptables-legacy-restore"}, true, false},
		{"ip6tables-legacy", "*nat\nCOMMIT\n", []string{"ip6tables-legacy-restore"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
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

// To look must not create what is looked for.
func TestReadingLoadsNoTable(t *testing.T) {
	ns := newNamespace(t)
	for range 2 {
		if m := read(t, ns); len(m.legacy) != 0 || m.Judge(to("192.0.2.1:80")).Takeover != config.TakeoverAdopt {
			t.Fatalf("tables %v, verdict %+v", m.legacy, m.Judge(to("192.0.2.1:80")))
		}
	}
}

// Whatever changes, the watcher says so, and its survey is the new one.
func TestWatcher(t *testing.T) {
	ns := newNamespace(t)
	w := watch(t, ns)
	d := to("192.0.2.1:80")
	for _, step := range []struct {
		input   string
		command []string
		nat     bool
	}{
		{"table ip n { chain c { type nat hook postrouting priority srcnat; }; }", []string{"nft", "-f", "-"}, true},
		{"delete table ip n", []string{"nft", "-f", "-"}, false},
		{"*nat\nCOMMIT\n", []string{"iptables-legacy-restore"}, true},
	} {
		run(t, ns, step.input, step.command...)
		await(t, w, func(m *Machine) bool { return m.Judge(d).Has(NATHooks) == step.nat })
	}
}

func watch(t *testing.T, ns *lab.Namespace) (w *Watcher) {
	t.Helper()
	if err := ns.Do(func() (err error) { w, err = Watch(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

const patience = 30 * time.Second

func await(t *testing.T, w *Watcher, want func(*Machine) bool) {
	t.Helper()
	began := time.Now()
	end := time.After(patience)
	for !want(w.Machine()) {
		select {
		case <-w.Changed():
		case <-end:
			t.Fatal("the change was not seen")
		}
	}
	t.Logf("seen after %v", time.Since(began).Round(time.Millisecond))
}
