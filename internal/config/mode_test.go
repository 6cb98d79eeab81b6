// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// A service without a mode is in mode auto where something counts for the detector, and elsewhere in mode always; there auto is refused.
func TestModeOfPlanes(t *testing.T) {
	const services = "services: [{name: web, ports: [80]}]\n"
	for _, c := range []struct {
		name, top string
		want      Mode
	}{
		{"host", "interfaces: [a]\nsecret_file: s\n", ModeAuto},
		{"server", "role: server\ninterfaces: [a]\nsecret_file: s\n", ModeAuto},
		{"edge", "role: edge\ninterfaces: [a, b]\ninside: [b]\nsecret_file: s\n", ModeAuto},
		{"proxy", "role: proxy\ninterfaces: [a, b]\nsecret_file: s\n", ModeAuto},
		{"proxy dpdk", "role: proxy\nplane: dpdk\nforwarding: bridge\ninterfaces: [a, b]\nsecret_file: s\n", ModeAuto},
		{"edge p4", "role: edge\nplane: p4\ninterfaces: [sw1, sw2]\ninside: [sw2]\nsecret_file: s\n", ModeAlways},
		{"proxy p4", "role: proxy\nplane: p4\ninterfaces: [sw1, sw2]\ninside: [sw2]\nsecret_file: s\np4: {notifications: /n}\n", ModeAlways},
	} {
		got, err := Parse("f", []byte(c.top+services))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Services[0].Mode != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.Services[0].Mode, c.want)
		}
		_, err = Parse("f", []byte(c.top+strings.Replace(services, "name", "mode: auto, name", 1)))
		if refused := err != nil && strings.Contains(err.Error(), "use always"); refused != (c.want == ModeAlways) {
			t.Errorf("%s, mode: auto: %v", c.name, err)
		}
	}
}
