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

// planeFor returns a plane on which a role has a field with a value; empty: the role has no planes, or none fits.
func planeFor(f *Field, role, value string) Plane {
	if !hasPlanes(role) {
		return ""
	}
	for _, p := range []Plane{PlaneXDP, PlaneDPDK, PlaneP4} {
		if slices.Contains(fieldOf("plane", role, p).Words, string(p)) && (len(f.Planes) == 0 || slices.Contains(f.Planes, p)) &&
			!slices.Contains(f.Lacks[p], value) {
			return p
		}
	}
	return ""
}

// fileOf returns a whole file of a role in which one field has a value, on a plane that has it.
func fileOf(f *Field, role, value string) string {
	return fileOn(f, role, planeFor(f, role, value), value)
}

func fileOn(f *Field, role string, plane Plane, value string) string {
	lines := map[string]string{"role": role, "interfaces": "[eth0]", "secret_file": "/s", "services": ""}
	services := map[string]string{"name": "web", "ports": "[80]"}
	dpdk := map[string]string{}
	report := map[string]string{"api": "/api"}
	events := map[string]string{"file": "/events"}
	bgp := map[string]string{"as": "64512", "router_id": "192.0.2.10", "own": "[203.0.113.0/24]"}
	router := map[string]string{"address": "192.0.2.1", "as": "64500", "flowspec": "yes"}
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
	port := map[string]string{"interface": "a", "side": "upstream"}
	exception := map[string]string{"src": "192.0.2.0/24"}
	patrol := map[string]string{"name": "p", "address": "192.0.2.1:1", "key": strings.Repeat("0", 64), "prefixes": "[192.0.2.0/24]"}
	detector := map[string]string{"name": "d", "key": strings.Repeat("0", 64)}
	signed := map[string]string{"anchors": "/a", "store": "/b", "key": "/k"}
	p4 := map[string]string{}
	limits := map[string]string{"new_per_second": "100"}
	fleet := map[string]string{"servers": "['tls://192.0.2.1:4222']"}
	sees := map[string]string{}
	if plane != "" {
		lines["plane"] = string(plane)
	}
	if plane == PlaneP4 {
		lines["interfaces"], lines["inside"] = "[eth0, eth1]", "[eth1]"
		p4["notifications"] = "/n"
		if role == RoleProxy {
			services["strategy"] = string(StrategyAuthFull)
		}
		if f.Name == "p4.mtu" {
			lines["protocol"], lines["edge_id"] = "tagged", "1"
		}
		if f.Name == "services.first_data" {
			services["strategy"] = string(StrategyCookie)
		}
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
	case "p4":
		p4[name] = value
	case "report_to":
		report[name] = value
	case "events":
		events[name] = value
	case "source_limits":
		limits[name] = value
	case "detector":
		sees[name] = value
	case "fleet":
		fleet[name] = value
	case "bgp":
		if name != "" {
			bgp[name] = value
		}
	case "bgp_peers":
		if name != "" {
			router[name] = value
		}
	case "ports":
		port[name] = value
	case "exceptions":
		exception[name] = value
	case "patrols":
		patrol[name] = value
	case "detectors":
		detector[name] = value
	case "signed_bindings":
		signed[name] = value
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
	if _, has := lines["services"]; has || strings.HasPrefix(f.Name, "services.") {
		lines["services"] = "[" + flow(services) + "]"
	}
	if len(dpdk) > 0 {
		lines["dpdk"] = flow(dpdk)
	}
	if len(p4) > 0 {
		lines["p4"] = flow(p4)
	}
	if strings.HasPrefix(f.Name, "report_to.") {
		lines["report_to"] = flow(report)
	}
	if strings.HasPrefix(f.Name, "fleet.") {
		lines["fleet"] = flow(fleet)
	}
	if strings.HasPrefix(f.Name, "source_limits.") {
		lines["source_limits"] = flow(limits)
	}
	if strings.HasPrefix(f.Name, "detector.") {
		lines["detector"] = flow(sees)
	}
	if (f.Name == "deny_list" || f.Name == "allow_list") && role == RoleServer {
		lines["takeover"], lines["without_edge"] = string(TakeoverAdopt), string(WithoutEdgeAnswer)
		delete(lines, "edges")
	}
	if strings.HasPrefix(f.Name, "bgp") {
		lines["bgp"], lines["bgp_peers"] = flow(bgp), "["+flow(router)+"]"
	}
	if strings.HasPrefix(f.Name, "events.") {
		lines["events"] = flow(events)
	}
	switch in, _, nested := strings.Cut(f.Name, "."); {
	case !nested:
	case in == "ports":
		lines[in] = "[" + flow(port) + "]"
	case in == "exceptions":
		lines[in] = "[" + flow(exception) + "]"
	case in == "patrols":
		lines[in] = "[" + flow(patrol) + "]"
	case in == "detectors":
		lines[in] = "[" + flow(detector) + "]"
		lines["api_listen"], lines["identity_file"] = "192.0.2.1:2", "/i"
	case in == "signed_bindings":
		lines[in] = flow(signed)
		delete(lines, "bindings")
	}
	var text strings.Builder
	for k, v := range lines {
		fmt.Fprintf(&text, "%s: %s\n", k, v)
	}
	return text.String()
}

// others are the values, in files of these tests, of the fields that parts are of.
var others = map[string]int64{"epoch": int64(8 * time.Second), "filter_window": int64(15 * time.Second)}

func (p Part) of(t map[string]int64) int64 { return t[p.Of] * p.Num / p.Den }

// limits returns the limits of a field in files of these tests.
func (f *Field) limits() (low, high int64) {
	low, high = f.Low, f.High
	if f.LowPart.Of != "" {
		low = max(low, f.LowPart.of(others))
	}
	if f.HighPart.Of != "" {
		high = min(high, f.HighPart.of(others))
	}
	return low, high
}

// within returns values that the table calls good, and bad ones.
func (f *Field) within() (good, bad []string) {
	low, high := f.limits()
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
	good, bad = append(good, write(low), write(high)), []string{write(high + step), "nonsense"}
	if low > 0 {
		bad = append(bad, write(low-step))
	}
	return good, bad
}

// unlike lists fields whose limits depend on others: the parser's are narrower than the table's.
var unlike = map[string]string{
	"protocol":     "tagged needs other fields",
	"codepoint":    "it may not be the same as plain",
	"plain":        "it may not be the same as codepoint",
	"role":         "each has fields of its own",
	"plane":        "each has fields of its own",
	"without_edge": "needs takeover: adopt",
	"max_filters":  "",
}

// The parser accepts the values that the table describes.
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
			in, name, nested := strings.Cut(f.Name, ".")
			if nested && slices.Contains(upstreamRoles, role) && slices.Contains(namesOf("", role), in) { // another role's mapping of this name
				continue
			}
			if _, err := Parse("f", []byte(fileOf(&f, role, good[0]))); err == nil || !strings.Contains(err.Error(), in) && (!nested || !strings.Contains(err.Error(), name)) {
				t.Errorf("%s of role %s: %v", f.Name, role, err)
			}
		}
	}
}

// The default that the document names is the one that a file without the field gets.
func TestDefaultsAreWhatTheTableSays(t *testing.T) {
	compared := 0
	for _, f := range Fields() {
		if _, dependsOnOthers := unlike[f.Name]; dependsOnOthers || f.Kind == Mapping || f.Kind == Mappings || f.Kind == List && f.Default != "all" || f.Kind == Text && f.Default == "required" {
			continue
		}
		def := f.Default
		if f.DefaultPart.Of != "" {
			def = time.Duration(f.DefaultPart.of(others)).String()
		}
		if f.DefaultWith.Field != "" { // fileOf gives that field a value
			def = f.DefaultWith.Default
		}
		if f.Kind == List {
			def = "[" + strings.Join(f.Words, ", ") + "]"
		}
		if def == "" || strings.Contains(def, "required") || strings.ContainsAny(def, "`;") || strings.Contains(def, " ") && f.Kind == Text {
			continue
		}
		compared++
		for _, role := range f.Roles {
			text := fileOf(&f, role, def)
			with, err := Parse("f", []byte(text))
			if err != nil {
				t.Errorf("role %s: %s: %s: %v", role, f.Name, def, err)
				continue
			}
			var without []byte
			if in, name, nested := strings.Cut(f.Name, "."); nested && in != "" {
				text = strings.NewReplacer(", "+name+": "+def, "", name+": "+def+", ", "", name+": "+def, "").Replace(text)
				without = []byte(text)
			} else {
				without = []byte(strings.Replace(text, f.Name+": "+def+"\n", "", 1))
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
				t.Errorf("role %s: without %s the configuration is not that of %s", role, f.Name, def)
			}
		}
	}
	if compared < 60 {
		t.Errorf("%d defaults were compared; want at least 60", compared)
	}
}

// What a plane cannot do is refused by name: fields, and words of fields.
func TestWhatAPlaneLacksIsRefusedByName(t *testing.T) {
	tried := map[Plane]int{}
	for _, f := range Fields() {
		if f.Kind == Mapping || f.Kind == Mappings { // tried by the fields within
			continue
		}
		for _, role := range f.Roles {
			for _, word := range []Plane{PlaneXDP, PlaneDPDK, PlaneP4} {
				if !hasPlanes(role) || !slices.Contains(fieldOf("plane", role, word).Words, string(word)) {
					continue
				}
				value := f.Default
				if good, _ := f.within(); len(good) > 0 {
					value = good[0]
				}
				refused := append([]string{}, f.Lacks[word]...)
				name := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
				if planes := planesOf(f.Name, role); len(planes) > 0 && !slices.Contains(planes, word) {
					if in, _, nested := strings.Cut(f.Name, "."); nested && in != "services" && len(planesOf(in, role)) > 0 { // the whole mapping is refused
						name = in
					}
					refused = append(refused, value)
				}
				for _, v := range refused {
					_, err := Parse("f", []byte(fileOn(&f, role, word, v)))
					if err == nil || !strings.Contains(err.Error(), name+": ") {
						t.Errorf("role %s, plane %s, %s: %s: %v", role, word, f.Name, v, err)
					}
					tried[word]++
				}
			}
		}
	}
	if tried[PlaneXDP] < 10 || tried[PlaneDPDK] < 10 || tried[PlaneP4] < 20 {
		t.Errorf("tried %v", tried)
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
