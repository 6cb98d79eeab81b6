// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/config"
)

// otherwise are the fields of an example that differ from the table's example or default, because fields exclude or need
// each other; "": left out.
var otherwise = map[string]map[string]string{
	config.RoleProxy:         {},
	"proxy dpdk":             {"services.mode": "always"},
	"proxy p4":               {"services.strategy": "auth-full", "services.first_data": "", "services.mode": "always"},
	"edge p4":                {"protocol": "tagged", "services.mode": "always"},
	config.RoleBorderManager: {"signed_bindings": ""},
	config.RoleFilterManager: {"bindings": ""},
}

// example is a configuration with every field of a role, and of a plane if the name has one: "proxy dpdk".
func example(name string) (string, error) {
	role, planeName, _ := strings.Cut(name, " ")
	plane := config.Plane(planeName)
	if plane == "" {
		plane = config.PlaneXDP
	}
	var top, last strings.Builder
	nested := map[string]*strings.Builder{}
	var order, seen []string
	for _, f := range config.Fields() {
		if !slices.Contains(f.Roles, role) || len(f.Planes) > 0 && !slices.Contains(f.Planes, plane) || slices.Contains(seen, f.Name) {
			continue
		}
		seen = append(seen, f.Name)
		in, field, isNested := strings.Cut(f.Name, ".")
		if isNested && inExampleOf(in) {
			continue
		}
		value := valueOf(&f, role, string(plane))
		if v, differs := otherwise[name][f.Name]; differs {
			value = v
		}
		switch {
		case isNested && value != "":
			if nested[in] == nil {
				nested[in] = &strings.Builder{}
				order = append(order, in)
			}
			fmt.Fprintf(nested[in], "%s: %s\n", field, value)
		case (f.Kind == config.Mapping || f.Kind == config.Mappings) && f.Example == "": // of nested fields
		case value == "" && otherwise[name][f.Name] == "" && f.Example == "":
			if _, left := otherwise[name][f.Name]; !left {
				return "", fmt.Errorf("field %s has neither default nor Example", f.Name)
			}
		case value != "":
			fmt.Fprintf(&top, "%s: %s\n", f.Name, value)
		}
	}
	for _, in := range order {
		lines := strings.Split(strings.TrimSuffix(nested[in].String(), "\n"), "\n")
		if in == "services" {
			fmt.Fprintf(&last, "services:\n  - %s\n", strings.Join(lines, "\n    "))
			continue
		}
		fmt.Fprintf(&top, "%s:\n  %s\n", in, strings.Join(lines, "\n  "))
	}
	if len(seen) == 0 {
		return "", fmt.Errorf("no role %q", role)
	}
	return "```yaml file=" + strings.ReplaceAll(name, " ", "-") + ".yaml\n" + top.String() + last.String() + "```\n", nil
}

// inExampleOf says whether a mapping has an example that contains its fields.
func inExampleOf(mapping string) bool {
	return slices.ContainsFunc(config.Fields(), func(f config.Field) bool { return f.Name == mapping && f.Example != "" })
}

// valueOf is what an example says of a field: its example, or its default.
func valueOf(f *config.Field, role, plane string) string {
	switch {
	case f.Name == "role":
		return role
	case f.Name == "plane":
		return plane
	case f.Example != "":
		return f.Example
	case f.DefaultPart.Of != "":
		of := map[string]time.Duration{}
		for _, g := range config.Fields() {
			if d, err := time.ParseDuration(g.Default); err == nil {
				of[g.Name] = d
			}
		}
		d := of[f.DefaultPart.Of] * time.Duration(f.DefaultPart.Num) / time.Duration(f.DefaultPart.Den)
		return d.String()
	case strings.HasPrefix(f.Default, "required"):
		return ""
	case f.Kind == config.Text && f.Default != "" && strings.Trim(f.Default, "0123456789") == "":
		return `"` + f.Default + `"`
	}
	return f.Default
}
