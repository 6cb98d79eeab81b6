// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"testing"

	"tidegate/internal/schema"
)

// TestWordsHaveNumbers: the words of these fields and those of core/abi.def are the same ones.
func TestWordsHaveNumbers(t *testing.T) {
	for name, words := range map[string][]string{"services.mode": schema.ModeWords(), "services.strategy": schema.StrategyWords(),
		"on_stale_keys": schema.StaleWords(), "services.first_data": schema.FirstDataWords(), "ports.neighbour": schema.MarkWords()} {
		if f := fieldOf(name, RoleProxy, PlaneXDP); !slices.Equal(slices.Sorted(slices.Values(f.Words)), slices.Sorted(slices.Values(words))) {
			t.Errorf("%s takes %v, and core/abi.def has %v", name, f.Words, words)
		}
	}
}
