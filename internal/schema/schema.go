// SPDX-License-Identifier: Apache-2.0

// Package schema holds what C, Go and the documents must agree on: the names
// and numbers of counters. counters.go is generated from core/counters.def;
// this package must hold nothing that has a second source.
package schema

//go:generate go run ./gen -def ../../core/counters.def -go counters.go -md ../../docs/counters.md
//go:generate go run ./gen -abi ../../core/abi.def -go abi.go

import "fmt"

// Counter is the number of a counter in the maps of the packet paths.
type Counter uint32

// String returns the counter's name as in core/counters.def, status and metrics.
func (c Counter) String() string {
	if c < NumCounters {
		return counters[c].name
	}
	return fmt.Sprintf("counter_%d", uint32(c))
}

// Help says what one count means.
func (c Counter) Help() string {
	if c < NumCounters {
		return counters[c].help
	}
	return ""
}

// ByName finds a counter by its name.
func ByName(name string) (Counter, bool) {
	for i, c := range counters {
		if c.name == name {
			return Counter(i), true
		}
	}
	return 0, false
}

// Map names the values of one set of counters, for JSON.
func Map(values [NumCounters]uint64) map[string]uint64 {
	m := make(map[string]uint64, NumCounters)
	for i, v := range values {
		m[counters[i].name] = v
	}
	return m
}
