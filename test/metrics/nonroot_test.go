// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Every role runs as another user with the capabilities of its unit: those with a packet path with three (a SYN cache with four), managers with none. No
// operation is refused.
func TestRolesWithoutRoot(t *testing.T) {
	w := newWorld(t)
	three := []string{"bpf", "perfmon", "net_admin"}
	kinds := append([]instance{
		{"server", "takeover: translate\ninterfaces: [tg-trans]\n" + services, []string{"tg-trans"}},
		{"server", "takeover: auto\ninterfaces: [tg-auto]\n" + services, []string{"tg-auto"}},
		{"edge", "cookie_layout: smartcookie\ninterfaces: [tg-sout, tg-sin]\ninside: [tg-sin]\n" + services, []string{"tg-sout", "tg-sin"}},
		{"proxy", "interfaces: [tg-cout, tg-cin]\nforwarding: bridge\n" + services + "    strategy: cache\n", []string{"tg-cout", "tg-cin"}},
	}, instances...)
	for i, in := range kinds {
		t.Run(fmt.Sprintf("%s-%d", in.role, i), func(t *testing.T) {
			for _, name := range in.interfaces {
				w.veth(name)
			}
			caps := three
			switch {
			case len(in.interfaces) == 0:
				caps = nil
			case strings.Contains(in.config, "strategy: cache"): // which sends by a packet socket
				caps = append([]string{"net_raw"}, three...)
			}
			name := fmt.Sprintf("%s%s-n%d", rig.InstPrefix, w.owner, i)
			conf := w.file(name+".yaml", fmt.Sprintf("role: %s\ninstance: %s\n%s", in.role, name, in.config))
			program := harness.AsNobody(t, tidegate, w.dir, []string{w.dir + "/secret", w.dir + "/bindings"}, caps...)
			if err := os.Chmod(conf, 0o644); err != nil {
				t.Fatal(err)
			}
			p := (&harness.Instance{T: t, NS: w.ns, Binary: program, Name: name, Config: conf}).Start()
			if len(in.interfaces) > 0 && in.role != "patrol" {
				out, errs, err := (&harness.Instance{T: t, NS: w.ns, Binary: program, Name: name}).Run("status", "--ready", "--instance", name)
				if err != nil || out != "protecting web\n" {
					t.Errorf("%v: %s%s", err, out, errs)
				}
			}
			p.Interrupt()
			if p.Err != nil {
				t.Errorf("its end: %v", p.Err)
			}
			for _, word := range []string{"not permitted", "denied", "level=ERROR"} {
				if lines := p.Log(word); len(lines) > 0 {
					t.Errorf("%s", strings.Join(lines, ""))
				}
			}
		})
	}
}
