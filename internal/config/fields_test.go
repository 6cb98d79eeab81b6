// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// fileOf is a whole file of a role in which one field has a value.
func fileOf(f *Field, role, value string) string {
	lines := map[string]string{"role": role, "interfaces": "[eth0]", "secret_file": "/s", "services": ""}
	services := map[string]string{"name": "web", "ports": "[80]"}
	dpdk := map[string]string{}
	report := map[string]string{"api": "/api"}
	events := map[string]string{"file": "/events"}
	switch role {
	case RoleEdge:
		lines["interfaces"], lines["inside"] = "[eth0, eth1]", "[eth1]"
	case RoleServer:
		lines["takeover"] = "translate"
		lines["edges"] = `["1 198.51.100.2"]`
	case RolePatrol:
		lines = map[string]string{"role": role, "ports": "[{interface: a, side: customers}, {interface: b, side: upstream}]"}
	case RoleBorderManager:
		lines = map[string]string{"role": role, "identity_file": "/i", "secret_file": "/s", "listen": "192.0.2.1:1", "bindings": "/b",
			"patrols": "[{name: p, address: 192.0.2.1:1, key: " + strings.Repeat("0", 64) + ", prefixes: [192.0.2.0/24]}]"}
	case RoleFilterManager:
		lines = map[string]string{"role": role, "listen": "192.0.2.1:1", "own": "[192.0.2.0/24]", "bindings": "/b"}
	}
	if f.Plane == PlaneDPDK || f.Name == "services.first_data" && value == string(FirstDataStore) {
		lines["plane"] = "dpdk"
	}
	if f.Name == "forwarding" && value == "bridge" && role != RolePatrol {
		lines["interfaces"] = "[eth0, eth1]"
	}
	if f.Name == "services.signed_rate" {
		services["signed"] = "pass"
	}
	switch in, name, _ := strings.Cut(f.Name, "."); in {
	case "services":
		services[name] = value
	case "dpdk":
		dpdk[name] = value
	case "report_to":
		report[name] = value
	case "events":
		events[name] = value
	default:
		lines[f.Name] = value
	}
	flow := func(m map[string]string) string {
		var parts []string
		for k, v := range m {
			parts = append(parts, k+": "+v)
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if _, has := lines["services"]; has {
		lines["services"] = "[" + flow(services) + "]"
	}
	if len(dpdk) > 0 {
		lines["dpdk"] = flow(dpdk)
	}
	if strings.HasPrefix(f.Name, "report_to.") {
		lines["report_to"] = flow(report)
	}
	if strings.HasPrefix(f.Name, "events.") {
		lines["events"] = flow(events)
	}
	var text strings.Builder
	for k, v := range lines {
		fmt.Fprintf(&text, "%s: %s\n", k, v)
	}
	return text.String()
}

// within and beyond are values that the table calls good and bad.
func (f *Field) within() (good, bad []string) {
	write := func(n int64) string { return fmt.Sprint(n) }
	switch f.Kind {
	case Words:
		return f.Words, []string{"nonsense"}
	case YesNo:
		return []string{"yes", "no"}, []string{"perhaps"}
	case Share:
		return []string{"1%", "100%"}, []string{"0%", "101%"}
	case Duration:
		write = func(n int64) string { return time.Duration(n).String() }
	case Number, Auto, Rate64:
		switch f.Kind {
		case Auto:
			good = append(good, "auto")
		case Rate64:
			good = append(good, "all")
		}
	default:
		return nil, nil
	}
	step := int64(1)
	if f.Kind == Duration {
		step = int64(time.Millisecond)
	}
	good, bad = append(good, write(f.Low), write(f.High)), []string{write(f.High + step), "nonsense"}
	if f.Low > 0 {
		bad = append(bad, write(f.Low-step))
	}
	return good, bad
}

// unlike are fields whose limits depend on others: the parser's are narrower than the table's.
var unlike = map[string]string{
	"clock_skew":          "its most is a part of epoch",
	"key_horizon":         "its least is two epochs",
	"services.first_data": "store needs plane: dpdk",
	"protocol":            "tagged needs other fields",
	"codepoint":           "it may not be the same as plain",
	"plain":               "it may not be the same as codepoint",
	"role":                "each has fields of its own",
	"without_edge":        "needs takeover: adopt",
	"max_filters":         "",
}

// What the table says of a field's values is what the parser takes.
func TestFieldsAreParsedAsTheyAreDescribed(t *testing.T) {
	tried := 0
	for _, f := range Fields() {
		if why := unlike[f.Name]; why != "" {
			continue
		}
		good, bad := f.within()
		for _, role := range f.Roles {
			for _, value := range good {
				if _, err := Parse("f", []byte(fileOf(&f, role, value))); err != nil {
					t.Errorf("role %s, %s: %s: %v; the table says it is good", role, f.Name, value, err)
				}
				tried++
			}
			for _, value := range bad {
				if _, err := Parse("f", []byte(fileOf(&f, role, value))); err == nil {
					t.Errorf("role %s: %s: %s is accepted; the table says %s", role, f.Name, value, f.Range())
				}
				tried++
			}
		}
	}
	if tried < 300 {
		t.Errorf("%d values tried; want at least 300", tried)
	}
}

// A field is refused in every role that the table does not give it to.
func TestFieldsOfOtherRoles(t *testing.T) {
	for _, f := range Fields() {
		good, _ := f.within()
		if len(good) == 0 {
			continue
		}
		for _, role := range everyRole {
			if slices.Contains(rolesOf(f.Name), role) {
				continue
			}
			if strings.Contains(f.Name, ".") && slices.Contains(upstreamRoles, role) {
				continue
			}
			if _, err := Parse("f", []byte(fileOf(&f, role, good[0]))); err == nil || !strings.Contains(err.Error(), f.Name[strings.LastIndexByte(f.Name, '.')+1:]) && !strings.Contains(err.Error(), "dpdk") && !strings.Contains(err.Error(), "report_to") {
				t.Errorf("%s of role %s: %v", f.Name, role, err)
			}
		}
	}
}

// The default that the document names is the one that a file without the field gets.
func TestDefaultsAreWhatTheTableSays(t *testing.T) {
	for _, f := range Fields() {
		if _, dependsOnOthers := unlike[f.Name]; dependsOnOthers || f.Kind == Mapping || f.Kind == List || f.Kind == Text {
			continue
		}
		if f.Default == "" || strings.HasPrefix(f.Default, "required") || strings.HasPrefix(f.Default, "`") {
			continue
		}
		for _, role := range f.Roles {
			with, err := Parse("f", []byte(fileOf(&f, role, f.Default)))
			if err != nil {
				t.Errorf("role %s: %s: %s: %v", role, f.Name, f.Default, err)
				continue
			}
			text := fileOf(&f, role, f.Default)
			var without []byte
			if in, name, nested := strings.Cut(f.Name, "."); nested && in != "" {
				text = strings.NewReplacer(", "+name+": "+f.Default, "", name+": "+f.Default+", ", "", name+": "+f.Default, "").Replace(text)
				without = []byte(text)
			} else {
				without = []byte(strings.Replace(text, f.Name+": "+f.Default+"\n", "", 1))
			}
			got, err := Parse("f", without)
			if err != nil {
				t.Errorf("role %s without %s: %v\n%s", role, f.Name, err, without)
				continue
			}
			for _, c := range []*Config{with, got} { // lines differ
				for i := range c.Services {
					c.Services[i].Line = 0
				}
			}
			if !reflect.DeepEqual(got, with) {
				t.Errorf("role %s: without %s the configuration is not that of %s", role, f.Name, f.Default)
			}
		}
	}
}

// Every name that reloads compare belongs to a field, and every field to such a name.
func TestFieldsAndChangesAgree(t *testing.T) {
	changes := map[string]bool{"services": true}
	for _, c := range changeable {
		changes[c.name] = false
	}
	for _, f := range Fields() {
		name := f.Change
		if name == "" {
			name = f.Name
		}
		if _, there := changes[name]; !there {
			t.Errorf("%s: no reload compares %q", f.Name, name)
		}
		changes[name] = true
	}
	for name, described := range changes {
		if !described {
			t.Errorf("%s is compared, and no field is described by it", name)
		}
	}
}
