// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// examplesOf are the complete examples of docs/configuration.md, by "ROLE PLANE".
func examplesOf(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- example: ([a-z0-9 -]+) -->\n```yaml [^\n]*\n(.*?)```\n<!-- end").FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// left lists the fields that an example cannot have beside the others.
var left = map[string][]string{
	"proxy p4":        {"services.first_data"}, // of strategies that translate
	RoleBorderManager: {"signed_bindings"},     // or bindings
	RoleFilterManager: {"bindings"},
}

// The document has a complete example of each role and plane: it is valid, uses no old form, and has every
// field that the table gives to that role on that plane.
func TestExamplesAreCompleteAndValid(t *testing.T) {
	examples := examplesOf(t)
	for _, name := range []string{"host", "proxy", "proxy dpdk", "proxy p4", "edge", "edge p4", "server", RolePatrol, RoleBorderManager, RoleFilterManager} {
		text, there := examples[name]
		if !there {
			t.Errorf("no example of %s", name)
			continue
		}
		c, err := Parse(name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		role, planeName, _ := strings.Cut(name, " ")
		plane := Plane(planeName)
		if plane == "" {
			plane = PlaneXDP
		}
		if c.Role != role || hasPlanes(role) && c.Plane != plane || len(c.Warnings) != 0 {
			t.Errorf("%s: role %s, plane %s, warnings %v", name, c.Role, c.Plane, c.Warnings)
		}
		for _, f := range Fields() {
			if !slices.Contains(f.Roles, role) || len(f.Planes) > 0 && !slices.Contains(f.Planes, plane) || slices.Contains(left[name], f.Name) {
				continue
			}
			if in, _, _ := strings.Cut(f.Name, "."); slices.Contains(left[name], in) {
				continue
			}
			field := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
			if !regexp.MustCompile(`(?m)(^( *| *- )|[{ ])` + field + `:`).MatchString(text) {
				t.Errorf("%s: the example lacks %s", name, f.Name)
			}
		}
	}
}

// another is a second value of a field that is not one word or number, in YAML.
var another = map[string]string{
	"instance": "other", "interfaces": "[eth0, eth1, eth2]", "secret_file": "/other", "next_secret_from": "2028-01-31T12:00:00Z", "next_secret_file": "/other",
	"metrics": "127.0.0.1:9465", "allow_list": "/other", "fleet.servers": `["tls://192.0.2.12:4222"]`, "fleet.node": "other", "fleet.ca_file": "/other", "fleet.cert_file": "/other", "fleet.key_file": "/other", "deny_list": "/other", "events.file": "/other", "events.webhook": "https://example.org/other", "events.command": "[/other]",
	"bgp.router_id": "192.0.2.11", "bgp.own": "[203.0.0.0/16]", "bgp.never": "[198.51.100.0/25]", "bgp.next_hop_v4": "192.0.2.2", "bgp.next_hop_v6": `"100::2"`, "bgp.communities": `["65535:667"]`, "bgp.service_prefixes": "[203.0.113.0/25]",
	"bgp_peers": "[{address: 192.0.2.2, as: 64500}]", "report_to.api": "/other.sock", "report_to.identity_file": "/other.key", "dpdk.cores": `"1"`, "dpdk.devices": `["0000:03:00.2", "0000:03:00.3"]`, "dpdk.routes": "[]", "dpdk.addresses": "[]",
	"inside": "[eth0]", "offers": "[sack]", "peers": "[198.51.100.4]", "edges": `["2 198.51.100.2"]`,
	"services.name": "other", "services.prefixes": "[192.0.2.0/25]", "services.ports": "[81]",
	"p4.thrift": "127.0.0.1:9091", "p4.notifications": "/other.ipc", "p4.macs": "[]", "p4.port_macs": "[]",
	"listen": "192.0.2.1:4748", "identity_file": "/other.key", "ports": "[{interface: eth1, side: customers}, {interface: eth0, side: upstream}]",
	"sources": "[198.51.100.0/25]", "sources_file": "/other", "managers": "[" + strings.Repeat("0", 64) + "]", "exceptions": "[]", "bindings": "/other",
	"signed_bindings": "{anchors: /other, store: /other}", "patrols": "[{name: east, address: \"192.0.2.10:4748\", key: " + strings.Repeat("0", 64) + ", prefixes: [198.51.100.0/24]}]",
	"api_listen": "203.0.113.9:4744", "detectors": "[{name: other, key: " + strings.Repeat("0", 64) + "}]",
	"protect": "[192.0.2.2/32]", "own": "[203.0.113.0/25]", "never": "[192.0.2.0/25]", "api": "/other.sock", "filters_file": "/other.db", "suricata": "[]",
}

// A change of any field, in any role and plane, is either brought into force by a reload, as the table says, or refused
// by name: none is accepted and then ignored.
func TestReloadsNameWhatTheyRefuse(t *testing.T) {
	live, refused := 0, 0
	for name, text := range examplesOf(t) {
		role, _, _ := strings.Cut(name, " ")
		old, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Fields() {
			field := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
			if in, _, nested := strings.Cut(f.Name, "."); nested && fieldOf(in, role, old.Plane).Example != "" { // tried as a part of that
				continue
			}
			line := regexp.MustCompile(`(?m)^( *| *- )(` + field + `): (.*)$`)
			m := line.FindStringSubmatch(text)
			if !slices.Contains(f.Roles, role) || f.Name == "role" || f.Name == "plane" || (f.Kind == Mapping || f.Kind == Mappings) && f.Example == "" || m == nil {
				continue
			}
			var next *Config
			value := ""
			good, _ := f.within()
			for _, v := range append(good, another[f.Name]) {
				if v == "" || v == m[3] {
					continue
				}
				c, err := Parse(name, []byte(strings.Replace(text, m[0], m[1]+m[2]+": "+v, 1)))
				if err == nil && len(Difference(old, c)) > 0 {
					next, value = c, v
					break
				}
			}
			if next == nil {
				if len(good) != 1 && !slices.Contains([]string{"protocol", "cookie_layout", "services.strategy", "services.signed", "takeover", "without_edge", "interfaces"}, f.Name) { // which in some role need others to change
					t.Errorf("%s: no other value of %s is known here", name, f.Name)
				}
				continue
			}
			change := f.Change
			if change == "" {
				change = f.Name
			}
			err := CheckReload(old, next, "")
			switch want := liveAt(change, old.situation()); {
			case want && err != nil && strings.Contains(err.Error(), change):
				t.Errorf("%s: %s: %s is refused, and the table says live: %v", name, f.Name, value, err)
			case !want && (err == nil || !strings.Contains(strings.SplitN(err.Error(), " changed", 2)[0], change)):
				t.Errorf("%s: %s: %s: %v; want it refused by name", name, f.Name, value, err)
			case want:
				live++
			default:
				refused++
			}
		}
	}
	if live < 90 || refused < 130 {
		t.Errorf("%d changes were live and %d refused; want at least 90 and 130", live, refused)
	}
}

// Fields of which every example has its only possible value beside the others are tried by themselves.
func TestReloadsNameWhatNoExampleCanChange(t *testing.T) {
	base := "role: server\ninterfaces: [eth0]\nsecret_file: /s\nservices:\n  - {name: web, ports: [80]}\n"
	for field, values := range map[string][2]string{
		"without_edge":  {"kernel", "answer"},
		"takeover":      {"adopt", "translate"},
		"cookie_layout": {"tidegate", "smartcookie"},
	} {
		var c [2]*Config
		for i, v := range values {
			var err error
			if c[i], err = Parse(field, []byte(base+field+": "+v+"\n")); err != nil {
				t.Fatal(err)
			}
		}
		if err := CheckReload(c[0], c[1], ""); err == nil || !strings.HasPrefix(err.Error(), field+" changed") {
			t.Errorf("%s: %v; want it refused by name", field, err)
		}
		if err := CheckReload(c[0], c[0], ""); err != nil {
			t.Errorf("%s, unchanged: %v", field, err)
		}
	}
}
