// SPDX-License-Identifier: Apache-2.0

package defences

import (
	"testing"
)

func TestParseSynproxy(t *testing.T) {
	const text = "entries\t\tsyn_received\tcookie_invalid\n00000000\t0000000a\t00000000\n00000000\t00000010\t00000001\n"
	if v, err := parseSynproxy(text); err != nil || v != 26 {
		t.Errorf("got %d, %v; want 26", v, err)
	}
	if _, err := parseSynproxy("entries other\n"); err == nil {
		t.Error("a missing column is not an error")
	}
}
