// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

const reportYAML = `interfaces: [eth0]
secret_file: /s
report_to: {api: /run/filters.sock, connections: 50}
services:
  - {name: web, ports: [80]}
`

func TestReportTo(t *testing.T) {
	c, err := Parse("h.yaml", []byte(reportYAML))
	if err != nil {
		t.Fatal(err)
	}
	if want := (ReportTo{API: "/run/filters.sock", Connections: 50, Invalid: 1000, Codepoint: 47}); c.ReportTo != want {
		t.Errorf("%+v, want %+v", c.ReportTo, want)
	}
	const peer = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a@203.0.113.9:4745"
	c, err = Parse("/etc/h.yaml", []byte(strings.Replace(reportYAML, "/run/filters.sock", peer+", identity_file: gate.key", 1)))
	if err != nil || c.ReportTo.API != peer || c.ReportTo.Identity != "/etc/gate.key" {
		t.Errorf("%+v, %v", c, err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"no socket":    {"api: /run/filters.sock, ", "", "h.yaml:3: report_to.api: is missing"},
		"no identity":  {"/run/filters.sock", peer, "h.yaml:3: report_to.api: is on another machine and needs identity_file"},
		"no port":      {"/run/filters.sock", strings.TrimSuffix(peer, ":4745") + ", identity_file: /i", "is not KEY@ADDRESS:PORT"},
		"no key":       {"/run/filters.sock", "a" + peer + ", identity_file: /i", "is not KEY@ADDRESS:PORT"},
		"unknown":      {"connections", "connection", "did you mean connections?"},
		"negative":     {"connections: 50", "connections: -1", "report_to.connections"},
		"server":       {"interfaces", "role: server\ninterfaces", "belongs to roles host, proxy and edge"},
		"no handshake": {"interfaces: [eth0]", "role: proxy\ninterfaces: [eth0, eth1]", ""},
	} {
		text := strings.Replace(reportYAML, c.from, c.to, 1)
		if name == "no handshake" {
			text, c.want = strings.Replace(text, "ports: [80]", "ports: [80], strategy: auth-full", 1), "needs a service of strategy: cookie or cache"
		}
		if _, err := Parse("h.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
