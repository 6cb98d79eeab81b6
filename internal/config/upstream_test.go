// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

const patrolYAML = `role: patrol
listen: 192.0.2.10:4748
identity_file: id
managers: [d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]
sources: [198.51.100.0/24]
ports:
  - {interface: eth1, side: customers}
  - {interface: eth0, side: upstream, neighbour: legacy, queue: 1.5gbit}
`

func TestUpstreamRoles(t *testing.T) {
	c, err := Parse("/etc/p.yaml", []byte(patrolYAML))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Patrol
	if c.Role != RolePatrol || p.Codepoint != 47 || p.Ports[1].QueueBits != 1_500_000_000 || p.Ports[1].Neighbour != NeighbourLegacy ||
		len(c.Interfaces) != 2 || p.Identity != "/etc/id" || !p.Check {
		t.Errorf("%+v", p)
	}
}

// Each mistake is reported with its line and how to fix it.
func TestUpstreamMistakes(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"no managers":      {"managers: [d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a]\n", "", "p.yaml:2: listen: needs identity_file and managers"},
		"short key":        {"d75a9801", "", "is not a public key of 64 hex digits"},
		"unknown field":    {"sources:", "source:", "did you mean sources?"},
		"side":             {"side: customers", "side: inside", "p.yaml:7: ports[0].side"},
		"no side":          {", side: customers", "", "ports[0].side: is missing"},
		"neighbour inside": {"side: customers", "side: customers, neighbour: legacy", "belongs to side: upstream"},
		"rate":             {"1.5gbit", "fast", "is not a rate; write it like"},
		"host bits":        {"198.51.100.0/24", "198.51.100.1/24", "has host bits set"},
		"twice":            {"interface: eth0", "interface: eth1", "eth1 is listed twice"},
		"service field":    {"sources:", "services: []\nsources:", "unknown field"},
		"marks nothing":    {"sources:", "codepoint: 0\nsources:", "which marks nothing"},
		"bridge":           {"  - {interface: eth1, side: customers}\n", "", ""},
	} {
		text := strings.Replace(patrolYAML, c.from, c.to, 1)
		if name == "bridge" {
			text, c.want = "forwarding: bridge\n"+text, "a bridge has two ports, and 1 are named"
		}
		_, err := Parse("p.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, text := range []string{"role: border-manager\nlisten: 192.0.2.1:4747\n", "role: filter-manager\nown: [192.0.2.0/24]\n", "role: patrol\n"} {
		if _, err := Parse("p.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Who may use a filter manager's API from another machine is stated in full, or not at all.
func TestDetectorsAreStatedInFull(t *testing.T) {
	const key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	good := "role: filter-manager\nlisten: 192.0.2.1:4746\nbindings: b\nown: [192.0.2.0/24]\nidentity_file: id\napi_listen: 192.0.2.1:4745\ndetectors:\n  - {name: ids, key: " + key + "}\n"
	c, err := Parse("/etc/f.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Filter.Detectors; len(d) != 1 || d[0] != (FilterDetector{"ids", key, 100_000}) || c.Filter.Identity != "/etc/id" || c.Filter.APIListen.Port() != 4745 {
		t.Errorf("%+v", c.Filter)
	}
	for name, m := range map[string]struct{ from, to, want string }{
		"no identity":   {"identity_file: id\n", "", "f.yaml:5: api_listen: needs identity_file and detectors"},
		"no listen":     {"api_listen: 192.0.2.1:4745\n", "", "detectors: needs api_listen"},
		"no key":        {", key: " + key, "", "detectors[0].key: is missing"},
		"one key twice": {"  - {", "  - {name: other, key: " + key + "}\n  - {", "has the name or the key of another detector"},
		"no filters":    {key + "}", key + ", filters: 0}", "filters"},
	} {
		if _, err := Parse("f.yaml", []byte(strings.Replace(good, m.from, m.to, 1))); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: %v, want %q", name, err, m.want)
		}
	}
}
