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

// The limits of a source come with the table's defaults where the node has none configured, and leave alone what it has configured beside them; an edge has none.
func TestSourceLimitsOfAFleet(t *testing.T) {
	l := Limits{"source_limits.new_per_second": 100, "source_limits.concurrent": 7}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role         string
		before, want SourceLimits
	}{
		{RoleHost, SourceLimits{}, SourceLimits{100, 7, 32, 64, LimitDrop}},
		{RoleHost, SourceLimits{5, 5, 24, 48, LimitReport}, SourceLimits{100, 7, 24, 48, LimitReport}},
		{RoleProxy, SourceLimits{}, SourceLimits{100, 7, 32, 64, LimitDrop}},
		{RoleEdge, SourceLimits{}, SourceLimits{}},
	} {
		cfg := &Config{Role: c.role, SourceLimits: c.before}
		if l.Override(cfg); cfg.SourceLimits != c.want {
			t.Errorf("%s: %+v, want %+v", c.role, cfg.SourceLimits, c.want)
		}
	}
	cfg := &Config{Role: RoleHost}
	if (Limits{"synack_limit": 5}).Override(cfg); cfg.SourceLimits != (SourceLimits{}) {
		t.Errorf("another limit sets %+v", cfg.SourceLimits)
	}
	if err := (Limits{"source_limits.concurrent": maxSourceRate + 1}).Validate(); err == nil {
		t.Error("a limit beyond the field's range is taken")
	}
}
