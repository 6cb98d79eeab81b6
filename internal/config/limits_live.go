// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits are limits, and settings of the detector, that a fleet sets on its nodes, by the names of their fields.
type Limits map[string]Value

// DetectorField is what the names of the detector's settings begin with.
const DetectorField = "detector."

// fleetLimits are where they stand.
var fleetLimits = map[string]func(c *Config) any{
	"synack_limit":                 func(c *Config) any { return &c.SynackLimit },
	"source_limits.new_per_second": func(c *Config) any { return &c.SourceLimits.NewPerSecond },
	"source_limits.concurrent":     func(c *Config) any { return &c.SourceLimits.Concurrent },
	"source_limits.prefix_v4":      func(c *Config) any { return &c.SourceLimits.PrefixV4 },
	"source_limits.prefix_v6":      func(c *Config) any { return &c.SourceLimits.PrefixV6 },
	"source_limits.action":         func(c *Config) any { return &c.SourceLimits.Action },
	"half_open_rate":               func(c *Config) any { return &c.Server.HalfOpenRate },
	"unknown_rate":                 func(c *Config) any { return &c.Edge.UnknownRate },
	"detector.sensitivity":         func(c *Config) any { return &c.Detector.Sensitivity },
	"detector.hard":                func(c *Config) any { return &c.Detector.Hard },
	"detector.idle_rate":           func(c *Config) any { return &c.Detector.IdleRate },
	"detector.calm":                func(c *Config) any { return &c.Detector.Calm },
}

// settable lists the names that begin with a prefix, without it; with an empty prefix, all but the detector's.
func settable(prefix string) (names []string) {
	for name := range fleetLimits {
		rest, found := strings.CutPrefix(name, prefix)
		if found && (prefix != "" || !strings.HasPrefix(name, DetectorField)) {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names
}

// ValidateLimits checks names and values of limits.
func (l Limits) ValidateLimits() error { return l.validate("limits", "") }

// ValidateDetector checks names and values of the detector's settings, which are without DetectorField here.
func (l Limits) ValidateDetector() error { return l.validate("detector", DetectorField) }

func (l Limits) validate(in, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if !slices.Contains(settable(prefix), name) {
			return fmt.Errorf("%s.%s: a fleet cannot set it; it can set %s", in, name, strings.Join(settable(prefix), ", "))
		}
		f := fieldOf(prefix+name, "", "")
		r := &reader{role: f.Roles[0], plane: PlaneXDP}
		if r.set(prefix+name, l[name], fleetLimits[prefix+name](&Config{})); len(r.errs) > 0 {
			return fmt.Errorf("%s.%s: %s", in, name, r.errs[0].Msg)
		}
	}
	return nil
}

// set reads a value as if it stood in a file.
func (r *reader) set(name string, v Value, to any) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	r.take(map[string]field{last: {path: name, node: v.node()}}, name, to)
}

// With are these limits and the detector's settings, under the names of their fields.
func (l Limits) With(detector Limits) Limits {
	all := maps.Clone(l)
	for name, v := range detector {
		if all == nil {
			all = Limits{}
		}
		all[DetectorField+name] = v
	}
	return all
}

// Override puts them in the place of what is configured, where they can be changed live; elsewhere they are left out.
func (l Limits) Override(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		change, _, _ := strings.Cut(name, ".")
		if fleetLimits[name] == nil || !liveAt(change, c.situation()) {
			continue
		}
		if change == "source_limits" {
			c.SourceLimits.complete()
		}
		r, before := &reader{role: c.Role, plane: c.Plane}, *c
		if r.set(name, l[name], fleetLimits[name](c)); len(r.errs) > 0 { // it was validated: the file with the fleet's state was changed by hand
			*c = before
		}
	}
}
