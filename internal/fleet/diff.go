// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidegate/internal/config"
)

// Diff lists what changes from one desired state to another, a line each.
func Diff(from, to *Desired) (lines []string) {
	lines = changed(lines, "mode of ", from.Modes, to.Modes, "as configured")
	lines = changed(lines, "", from.Limits, to.Limits, "as configured")
	lines = changed(lines, config.DetectorField, from.Detector, to.Detector, "as configured")
	lines = changed(lines, "group ", groupsAsText(from.Groups), groupsAsText(to.Groups), "no nodes")
	lines = changed(lines, "service ", servicesAsText(from.Services), servicesAsText(to.Services), "as configured")
	if a, b := from.Fleet.NewPerSecond, to.Fleet.NewPerSecond; a != b {
		lines = append(lines, fmt.Sprintf("fleet_limits.new_per_second: %d, now %d", a, b))
	}
	lines = append(lines, offersChanged(from.Offers, to.Offers)...)
	slices.Sort(lines)
	if a, b := from.Secret.String(), to.Secret.String(); a != b {
		lines = append(lines, fmt.Sprintf("next secret: %s, now %s", a, b))
	}
	for _, list := range []struct {
		name     string
		from, to []string
	}{{"allow", from.Allow, to.Allow}, {"deny", from.Deny, to.Deny}} {
		for _, e := range list.from {
			if !slices.Contains(list.to, e) {
				lines = append(lines, "- "+list.name+" "+e)
			}
		}
		for _, e := range list.to {
			if !slices.Contains(list.from, e) {
				lines = append(lines, "+ "+list.name+" "+e)
			}
		}
	}
	return lines
}

// changed adds a line for each name whose value differs; absent is what a name without a value has.
func changed[V ~string](lines []string, what string, from, to map[string]V, absent string) []string {
	names := map[string]bool{}
	for _, m := range []map[string]V{from, to} {
		for name := range m {
			names[name] = true
		}
	}
	word := func(m map[string]V, name string) string {
		if v, there := m[name]; there {
			return string(v)
		}
		return absent
	}
	for name := range names {
		if a, b := word(from, name), word(to, name); a != b {
			lines = append(lines, fmt.Sprintf("%s%s: %s, now %s", what, name, a, b))
		}
	}
	return lines
}

func groupsAsText(groups map[string][]string) map[string]string {
	text := map[string]string{}
	for name, nodes := range groups {
		text[name] = strings.Join(nodes, " ")
	}
	return text
}

// servicesAsText are the services by name, each as its fields in the order of their names.
func servicesAsText(services config.FleetServices) map[string]string {
	text := map[string]string{}
	for i := range services {
		var fields map[string]any
		value, err := json.Marshal(&services[i])
		if err == nil {
			err = json.Unmarshal(value, &fields)
		}
		if err != nil {
			text[services[i].Name] = err.Error()
			continue
		}
		delete(fields, "name")
		var words []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			words = append(words, fmt.Sprintf("%s %v", name, fields[name]))
		}
		text[services[i].Name] = strings.Join(words, ", ")
	}
	return text
}
