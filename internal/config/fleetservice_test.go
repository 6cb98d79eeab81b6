// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// fleetServices reads services as an operator writes them, and brings them to a node as it gets them.
func fleetServices(t *testing.T, text string) (l FleetServices) {
	t.Helper()
	var written FleetServices
	if err := yaml.UnmarshalWithOptions([]byte(text), &written, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(written)
	if err == nil {
		err = json.Unmarshal(stored, &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const onFile = `interfaces: [eth0]
secret_file: /s
services:
  - {name: web, ports: [80], mode: monitor}
  - {name: mail, ports: [25], mode: monitor}
`

// A service of the fleet is read as one of a file is: the same fields mean the same.
func TestFleetServiceIsOneOfAFile(t *testing.T) {
	for role, fields := range map[string]string{
		RoleHost:   `prefixes: [192.0.2.0/24], ports: [443, "8000-8010"], mode: always, mss: 1400, wscale: 5, window: 20000, signed: pass, signed_rate: 7, forwarded: yes`,
		RoleProxy:  `prefixes: [192.0.2.0/24, "2001:db8::/64"], ports: [443], strategy: cache, first_data: notify, defer_accept: yes`,
		RoleEdge:   `prefixes: [192.0.2.7], ports: [443], signed: drop`,
		RoleServer: `ports: [443], mss: auto`,
	} {
		head := "role: " + role + "\ninterfaces: [eth0, eth1]\nsecret_file: /s\n"
		if role == RoleEdge {
			head += "inside: [eth1]\n"
		}
		want, err := Parse("f", fmt.Appendf(nil, "%sservices:\n  - {name: web, ports: [80]}\n  - {name: tls, %s}\n", head, fields))
		if err != nil {
			t.Fatal(role, err)
		}
		l := fleetServices(t, fmt.Sprintf("- {name: tls, %s, roles: [%s]}", fields, role))
		if err := l.Validate(nil); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		got, err := Parse("f", fmt.Appendf(nil, "%sservices:\n  - {name: web, ports: [80]}\n", head))
		if err == nil {
			err = l.Override(got)
		}
		if err != nil {
			t.Fatal(role, err)
		}
		want.Services[1].Line = 0
		if !reflect.DeepEqual(got.Services, want.Services) {
			t.Errorf("%s: got  %+v\nwant %+v", role, got.Services, want.Services)
		}
	}
}

// The fleet's service takes the place of the file's of the same name; others are added; those of other roles and nodes are left out.
func TestFleetServicesBesideTheFile(t *testing.T) {
	l := fleetServices(t, `
- {name: web, ports: [80, 443], mode: always, roles: [host]}
- {name: shop, ports: [8080], roles: [host], nodes: [front]}
- {name: other, ports: [81], roles: [host], nodes: [gate9]}
- {name: behind, ports: [82], roles: [server]}
`)
	groups := map[string][]string{"front": {"gate1", "gate2"}}
	if err := l.Validate(groups); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"gate1": "web always, mail monitor, shop auto", "gate9": "web always, mail monitor, other auto", "gate7": "web always, mail monitor"} {
		c, err := Parse("f", []byte(onFile))
		if err == nil {
			err = l.For(node, groups).Override(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.Services {
			got = append(got, s.Name+" "+string(s.Mode))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %v, want %s", node, got, want)
		}
	}
}

func TestFleetServicesThatNoNodeCouldUse(t *testing.T) {
	for text, want := range map[string]string{
		"[{name: a, ports: [0], roles: [host]}]":                                                           "services.a: ports: 0 is out of range",
		"[{name: a, roles: [host]}]":                                                                       "services.a: ports: is empty",
		"[{name: a b, ports: [1], roles: [host]}]":                                                         "is not a name",
		"[{name: a, ports: [1], mode: sometimes, roles: [host]}]":                                          `services.a: mode: "sometimes" is not known`,
		"[{name: a, ports: [1], strategy: cache, roles: [host]}]":                                          "belongs to role: proxy",
		"[{name: a, ports: [1]}]":                                                                          "name `prefixes`",
		"[{name: a, ports: [1], roles: [gate]}]":                                                           `roles: "gate" is not known`,
		"[{name: a, ports: [1], roles: [host], nodes: ['*']}]":                                             `"*" is no name of a node`,
		"[{name: a, ports: [1], roles: [host]}, {name: a, ports: [2], roles: [host]}]":                     "the name is used twice",
		"[{name: a, ports: [1], roles: [host]}, {name: b, ports: ['1-9'], roles: [host]}]":                 "port 1 is claimed by a of the fleet too",
		"[{name: a, ports: [1], roles: [host], prefixes: [192.0.2.1/24]}]":                                 "has host bits set",
		"[{name: a, ports: [1], roles: [host]}, {name: b, ports: [1], roles: [server, host], nodes: [g]}]": "", // they may never meet
		"[{name: a, ports: [1], roles: [host]}, {name: b, ports: [1], roles: [server]}]":                   "",
		"[{name: a, ports: [1], prefixes: [0.0.0.0/0]}]":                                                   "",
	} {
		err := fleetServices(t, text).Validate(nil)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := (FleetServices{}).Validate(map[string][]string{"all": {"g 1"}}); err == nil {
		t.Error("a group of nodes without names is taken")
	}
}

// What does not fit the file is refused, with both names, and changes nothing.
func TestFleetServicesThatDoNotFitAFile(t *testing.T) {
	c, err := Parse("f", []byte(onFile))
	if err != nil {
		t.Fatal(err)
	}
	before := c.Services
	err = fleetServices(t, "[{name: shop, ports: ['20-30'], roles: [host]}]").Override(c)
	if err == nil || !strings.Contains(err.Error(), "services.shop.ports: 0.0.0.0/0 port 25 is claimed by mail of line 5 too") || !reflect.DeepEqual(c.Services, before) {
		t.Errorf("%v, %+v", err, c.Services)
	}
	tagged, err := Parse("f", []byte("role: edge\nprotocol: tagged\nedge_id: 1\ninside: [eth1]\ninterfaces: [eth0, eth1]\nsecret_file: /s\nservices: [{name: web, ports: [80]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fleetServices(t, "[{name: bgp, ports: [179], prefixes: [192.0.2.1], signed: pass, roles: [edge]}]").Override(tagged); err == nil || len(tagged.Services) != 1 {
		t.Errorf("what a file could not say: %v", err)
	}
	limited, err := Parse("f", []byte("role: proxy\nsource_limits: {new_per_second: 5}\ninterfaces: [eth0, eth1]\nsecret_file: /s\nservices: [{name: web, ports: [80]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fleetServices(t, "[{name: web, ports: [80], prefixes: [192.0.2.1], strategy: auth-ttl, roles: [proxy]}]").Override(limited); err == nil || !strings.Contains(err.Error(), "cookie or cache") {
		t.Errorf("limits that nothing counts for: %v", err)
	}
}
