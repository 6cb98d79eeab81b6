// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"

	"tidegate/internal/plane"
)

func TestPlain(t *testing.T) {
	always, auto := plane.Target{ID: 1}, plane.Target{ID: 2, Service: plane.Service{Automatic: 1}}
	for _, c := range []struct {
		what    string
		flows   uint8
		targets []plane.Target
		want    uint8
	}{
		{"no service", 0, nil, 1},
		{"services that authenticate", 0, []plane.Target{always}, 1},
		{"one that is automatic", 0, []plane.Target{always, auto}, 0},
		{"one that is, or was, translated", 1, []plane.Target{always}, 0},
	} {
		if got := plain(c.flows, c.targets); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
