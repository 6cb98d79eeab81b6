// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

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
		Limits{"synack_limit": "5", "unheard_of": "9"}.Override(cfg)
		if cfg.SynackLimit != c.want {
			t.Errorf("%+v: %d", c, cfg.SynackLimit)
		}
	}
}

// The limits of a source come with the table's defaults where the node has none configured, and leave alone what it has configured beside them; an edge has none.
func TestSourceLimitsOfAFleet(t *testing.T) {
	l := Limits{"source_limits.new_per_second": "100", "source_limits.concurrent": "7"}
	if err := l.ValidateLimits(); err != nil {
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
	if (Limits{"synack_limit": "5"}).Override(cfg); cfg.SourceLimits != (SourceLimits{}) {
		t.Errorf("another limit sets %+v", cfg.SourceLimits)
	}
	if err := (Limits{"source_limits.concurrent": "1000001"}).ValidateLimits(); err == nil {
		t.Error("a limit beyond the field's range is taken")
	}
}

// Every limit and every setting of the detector that a fleet can set reaches the configuration of a role that has it, by the parser of files.
func TestEveryLimitOfAFleet(t *testing.T) {
	values := map[string][2]Value{ // good, bad
		"synack_limit": {"7", "-1"}, "source_limits.new_per_second": {"8", "x"}, "source_limits.concurrent": {"9", "1000001"}, "source_limits.prefix_v4": {"24", "7"},
		"source_limits.prefix_v6": {"48", "65"}, "source_limits.action": {"report", "weep"}, "half_open_rate": {"10", "1001"}, "unknown_rate": {"all", "few"},
		"detector.sensitivity": {"high", "extreme"}, "detector.hard": {"2000", "1"}, "detector.idle_rate": {"20", "0"}, "detector.calm": {"10s", "10"},
	}
	for name := range fleetLimits {
		v, tried := values[name]
		if !tried {
			t.Errorf("%s is not tried", name)
			continue
		}
		validate := func(v Value) error {
			if short, of := strings.CutPrefix(name, DetectorField); of {
				return Limits{short: v}.ValidateDetector()
			}
			return Limits{name: v}.ValidateLimits()
		}
		if err := validate(v[0]); err != nil {
			t.Errorf("%s: %s: %v", name, v[0], err)
		}
		if err := validate(v[1]); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %s: %v", name, v[1], err)
		}
	}
	all := Limits{}
	for name, v := range values {
		all[name] = v[0]
	}
	host, edge := &Config{Role: RoleHost}, &Config{Role: RoleEdge, Plane: PlaneXDP}
	all.Override(host)
	all.Override(edge)
	if want := (SourceLimits{8, 9, 24, 48, LimitReport}); host.SourceLimits != want || host.SynackLimit != 7 || host.Server.HalfOpenRate != 10 ||
		host.Detector != (Detector{SensitivityHigh, 2000, 20, 10 * time.Second}) {
		t.Errorf("%+v", host)
	}
	if !edge.Edge.UnknownRate.All || edge.SourceLimits != (SourceLimits{}) || edge.Server.HalfOpenRate != 0 {
		t.Errorf("%+v", edge)
	}
	if err := (Limits{"detector.hard": "50"}).ValidateLimits(); err == nil {
		t.Error("the detector's settings have a place of their own")
	}
	wrong := &Config{Role: RoleHost, SynackLimit: 3}
	if (Limits{"synack_limit": "many"}).Override(wrong); wrong.SynackLimit != 3 {
		t.Errorf("what was not validated sets %d", wrong.SynackLimit)
	}
}

// Values survive the way from an operator's YAML to a node's JSON, also those that earlier versions wrote, and only scalars are values.
func TestValues(t *testing.T) {
	var l Limits
	if err := yaml.Unmarshal([]byte("{a: 443, b: 30s, c: '8000-8010', d: true, e: 0x10}"), &l); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(l)
	if want := `{"a":443,"b":"30s","c":"8000-8010","d":"true","e":"0x10"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	for _, wrong := range []string{"{a: [1]}", "{a: {b: 1}}"} {
		if err := yaml.Unmarshal([]byte(wrong), &Limits{}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
	for _, wrong := range []string{`{"a": [1]}`, `{"a": {}}`} {
		if err := json.Unmarshal([]byte(wrong), &Limits{}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
