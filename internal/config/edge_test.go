// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const edgeFile = `role: edge
interfaces: [eth0, eth1]
inside: [eth1]
secret_file: s
%services:
  - name: web
    ports: [80]
`

func edgeText(lines ...string) string {
	extra := ""
	for _, l := range lines {
		extra += l + "\n"
	}
	return strings.Replace(edgeFile, "%", extra, 1)
}

func TestEdge(t *testing.T) {
	c, err := Parse("f", []byte(edgeText("forwarding: bridge", "filter_bits: 22", "filter_window: 30s", "filter_alarm: 5%",
		"unknown_rate: all", "hops: 0", "offers: [sack]", "epoch: 4s", "learning: 0s")))
	if err != nil {
		t.Fatal(err)
	}
	want := Edge{Protocol: ProtocolPlain, Forwarding: ForwardBridge, FastPath: FastServices, Challenge: ChallengeAll, Inside: []string{"eth1"},
		FilterBits: 22, FilterWindow: 30 * time.Second, FilterAlarm: 0.05, UnknownRate: Rate{All: true}, SACK: true}
	e := c.Edge
	if e.Inside[0] != "eth1" || len(e.Inside) != 1 {
		t.Errorf("inside %v", e.Inside)
	}
	e.Inside, want.Inside = nil, nil
	if got := []any{e.Protocol, e.Forwarding, e.FastPath, e.FilterBits, e.FilterWindow, e.FilterAlarm, e.UnknownRate, e.Hops,
		e.SACK, e.Timestamps, e.ECN, e.Learning}; !equal(got, []any{want.Protocol, want.Forwarding, want.FastPath, want.FilterBits,
		want.FilterWindow, want.FilterAlarm, want.UnknownRate, want.Hops, want.SACK, want.Timestamps, want.ECN, want.Learning}) {
		t.Errorf("got %+v", e)
	}
	if c.ClockSkew != time.Second { // a quarter of the epoch
		t.Errorf("clock skew %s", c.ClockSkew)
	}
}

func equal(a, b []any) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestServer(t *testing.T) {
	c, err := Parse("f", []byte("role: server\ninterfaces: [eth0]\nsecret_file: s\nunmatched_ack: reset\ntakeover: adopt\nclock_skew: 0s\nservices:\n  - name: web\n    ports: [80]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.UnmatchedACK != UnmatchedReset || c.Server.Takeover != TakeoverAdopt || c.ClockSkew != 0 {
		t.Errorf("got %+v, skew %s", c.Server, c.ClockSkew)
	}
}

// Behind switches that speak the protocol tagged, a server translates their layout.
func TestServerBehindSwitches(t *testing.T) {
	text := strings.Replace(strings.Replace(edgeText("cookie_layout: smartcookie", "protocol: tagged", "takeover: translate"),
		"role: edge", "role: server", 1), "inside: [eth1]\n", "", 1)
	text += "edges: [1 192.0.2.1]\n"
	c, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.Layout != LayoutSmartcookie || c.Server.Protocol != ProtocolTagged || c.Server.Takeover != TakeoverTranslate {
		t.Errorf("got %+v", c.Server)
	}
}

func TestSplitMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no inside":  {strings.Replace(edgeText(), "inside: [eth1]\n", "", 1), "f:2: inside: is missing"},
		"not a port": {strings.Replace(edgeText(), "[eth1]", "[eth2]", 1), "f:3: inside: eth2 is not one of interfaces"},
		"no outside": {strings.Replace(edgeText(), "inside: [eth1]", "inside: [eth0, eth1]", 1), "f:3: inside: no interface is left for clients"},
		"bridge of three": {strings.Replace(edgeText("forwarding: bridge"), "[eth0, eth1]", "[eth0, eth1, eth2]", 1),
			"f:2: interfaces: a bridge has two ports, and 3 are named"},
		"tagged":                    {edgeText("protocol: tagged"), "f:5: edge_id: is missing; protocol: tagged needs the number"},
		"takeover":                  {strings.Replace(strings.Replace(edgeText("takeover: copy"), "role: edge", "role: server", 1), "inside: [eth1]\n", "", 1), "f:4: takeover: "},
		"layout":                    {edgeText("cookie_layout: classic"), `f:5: cookie_layout: "classic" is not known; use tidegate or smartcookie`},
		"signed, tags":              {edgeText("protocol: tagged", "edge_id: 1") + "    signed: pass\n", "services[0].signed: pass needs protocol: plain"},
		"layout, tags":              {edgeText("cookie_layout: smartcookie", "protocol: tagged", "edge_id: 1"), "f:5: cookie_layout: smartcookie goes with protocol: plain"},
		"layout, offer":             {edgeText("cookie_layout: smartcookie", "offers: [sack]"), "f:6: offers: cookie_layout: smartcookie can restore none of them"},
		"alarm":                     {edgeText("filter_alarm: 101%"), `f:5: filter_alarm: "101%" is not a share`},
		"rate":                      {edgeText("unknown_rate: some"), `f:5: unknown_rate: "some" is not a number`},
		"skew":                      {edgeText("clock_skew: 9s"), "f:5: clock_skew: 9s is out of range; use 0s to 8s"},
		"offers":                    {edgeText("offers: [wscale]"), `f:5: offers[0]: "wscale" is not known; use sack, timestamps or ecn`},
		"of a proxy":                {edgeText("max_flows: 2000"), "f:5: max_flows: belongs to role: proxy"},
		"of an edge":                {strings.Replace(edgeText(), "role: edge", "role: host", 1), "f:3: inside: belongs to roles edge and proxy"},
		"of a server":               {edgeText("unmatched_ack: drop"), "f:5: unmatched_ack: belongs to role: server"},
		"without edge, translating": {strings.Replace(strings.Replace(edgeText("takeover: auto", "without_edge: answer"), "role: edge", "role: server", 1), "inside: [eth1]\n", "", 1), "without_edge: goes with takeover: adopt"},
		"lists, kernel answers":     {strings.Replace(strings.Replace(edgeText("deny_list: deny"), "role: edge", "role: server", 1), "inside: [eth1]\n", "", 1), "deny_list: of a server that adopts needs without_edge: answer"},
		"without edge, smartcookie": {strings.Replace(strings.Replace(edgeText("cookie_layout: smartcookie", "without_edge: answer"), "role: edge", "role: server", 1), "inside: [eth1]\n", "", 1), "without_edge: answer needs cookie_layout: tidegate"},
		"of both":                   {strings.Replace(strings.Replace(edgeText("protocol: plain"), "role: edge", "role: host", 1), "inside: [eth1]\n", "", 1), "f:4: protocol: belongs to roles edge and server"},
	} {
		_, err := Parse("f", []byte(c.text))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got  %v\nwant %s", name, err, c.want)
		}
	}
}

// The layout of switches offers nothing that it cannot restore.
func TestSmartcookie(t *testing.T) {
	c, err := Parse("f", []byte(edgeText("cookie_layout: smartcookie")))
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Edge; e.Layout != LayoutSmartcookie || e.SACK || e.Timestamps || e.ECN {
		t.Errorf("%+v", e)
	}
}

func TestTakeoverAuto(t *testing.T) {
	for _, protocol := range []string{"plain", "tagged"} {
		text := "role: server\ntakeover: auto\nprotocol: " + protocol + "\nedges: [\"1 192.0.2.1\"]\ninterfaces: [eth0]\nsecret_file: s\nservices:\n  - name: web\n    ports: [80]\n"
		if c, err := Parse("f", []byte(text)); err != nil || c.Server.Takeover != TakeoverAuto {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

// The old name of a field is read like the new one, with a warning; both together are a mistake.
func TestFormerNames(t *testing.T) {
	const text = "role: server\ninterfaces: [eth0]\nsecret_file: s\n%sservices:\n  - name: web\n    ports: [80]\n"
	c, err := Parse("f", fmt.Appendf(nil, text, "last_line: reset\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.UnmatchedACK != UnmatchedReset {
		t.Errorf("unmatched_ack is %q after last_line: reset", c.Server.UnmatchedACK)
	}
	if lines := c.Warnings.Lines(); len(lines) != 1 || lines[0] != "f:4: last_line: is now called unmatched_ack; the old name will go in a later version" {
		t.Errorf("warnings: %q", lines)
	}
	if c, err = Parse("f", fmt.Appendf(nil, text, "unmatched_ack: reset\n")); err != nil || len(c.Warnings) != 0 {
		t.Errorf("the new name: %v, warnings %q", err, c.Warnings.Lines())
	}
	for _, both := range []string{"last_line: reset\nunmatched_ack: drop\n", "unmatched_ack: drop\nlast_line: reset\n"} {
		if _, err := Parse("f", fmt.Appendf(nil, text, both)); err == nil || !strings.Contains(err.Error(), "is the same field as") {
			t.Errorf("%q: %v", both, err)
		}
	}
}
