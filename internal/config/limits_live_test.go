// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

// A fleet's limits are put where a reload can change them, and left out elsewhere.
func TestLimitsOfAFleet(t *testing.T) {
	for _, c := range []struct {
		role, plane string
		takeover    Takeover
		want        int
	}{
		{RoleHost, "", "", 5},
		{RoleEdge, string(PlaneXDP), "", 5},
		{RoleProxy, string(PlaneDPDK), "", 1},
		{RoleServer, "", TakeoverAdopt, 5},
		{RoleServer, "", TakeoverTranslate, 1},
	} {
		cfg := &Config{Role: c.role, Plane: Plane(c.plane), SynackLimit: 1}
		cfg.Server.Takeover = c.takeover
		Limits{"synack_limit": 5, "unheard_of": 9}.Override(cfg)
		if cfg.SynackLimit != c.want {
			t.Errorf("%+v: %d", c, cfg.SynackLimit)
		}
	}
}
