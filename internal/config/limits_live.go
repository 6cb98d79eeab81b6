// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits are limits that a fleet sets on its nodes, by the names of their fields.
type Limits map[string]int

// fleetLimits are where they stand.
var fleetLimits = map[string]func(c *Config) *int{
	"synack_limit":                 func(c *Config) *int { return &c.SynackLimit },
	"source_limits.new_per_second": func(c *Config) *int { return &c.SourceLimits.NewPerSecond },
	"source_limits.concurrent":     func(c *Config) *int { return &c.SourceLimits.Concurrent },
}

// Validate checks names and ranges.
func (l Limits) Validate() error {
	fields := Fields()
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if fleetLimits[name] == nil {
			return fmt.Errorf("limits.%s: a fleet cannot set it; it can set %s", name, strings.Join(slices.Sorted(maps.Keys(fleetLimits)), ", "))
		}
		f := fields[slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })]
		if v := l[name]; float64(v) < float64(f.Low) || float64(v) > float64(f.High) {
			return fmt.Errorf("limits.%s: %d is out of range; want %v to %v", name, v, f.Low, f.High)
		}
	}
	return nil
}

// Override puts them in the place of what is configured, where they can be changed live; elsewhere they are left out.
func (l Limits) Override(c *Config) {
	for name, v := range l {
		change, _, _ := strings.Cut(name, ".")
		if at := fleetLimits[name]; at != nil && liveAt(change, c.situation()) {
			if *at(c) = v; change == "source_limits" {
				c.SourceLimits.complete()
			}
		}
	}
}
