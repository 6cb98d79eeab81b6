// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"
)

func TestCounters(t *testing.T) {
	if CounterSyn != 0 || CounterSyn.String() != "syn" {
		t.Errorf("the first counter is %d %s", CounterSyn, CounterSyn)
	}
	for c := Counter(0); c < NumCounters; c++ {
		if got, ok := ByName(c.String()); !ok || got != c || c.Help() == "" {
			t.Errorf("counter %d: %q, %q", c, c, c.Help())
		}
	}
	if _, ok := ByName("nothing"); ok || !strings.HasPrefix(Counter(NumCounters).String(), "counter_") {
		t.Error("a counter that is not there has a name")
	}
	m := Map([NumCounters]uint64{CounterAdopted: 7})
	if len(m) != NumCounters || m["adopted"] != 7 || m["syn"] != 0 {
		t.Errorf("%v", m)
	}
}
