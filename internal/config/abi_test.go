// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"tidegate/internal/schema"
)

// TestWordsHaveNumbers: every word that the packet paths get as a number is in core/abi.def,
// where an unknown one panics.
func TestWordsHaveNumbers(t *testing.T) {
	seen := map[uint8]bool{}
	for _, s := range Strategies() {
		n := schema.StrategyNumber(string(s))
		if seen[n] {
			t.Errorf("strategy %s has the number %d of another", s, n)
		}
		seen[n] = true
	}
	for _, m := range []Mode{ModeOff, ModeMonitor, ModeAlways} {
		schema.ModeNumber(string(m))
	}
	for _, s := range []StaleKeys{StaleKeysPass, StaleKeysDrop} {
		schema.StaleNumber(string(s))
	}
	for _, d := range []FirstData{FirstDataZeroWindow, FirstDataNotify, FirstDataStore} {
		schema.FirstDataNumber(string(d))
	}
	for _, n := range []Neighbour{NeighbourTerminus, NeighbourLegacy, NeighbourTrue} {
		schema.MarkNumber(string(n))
	}
}
