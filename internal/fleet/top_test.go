// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"testing"
)

// A source that is a little above its limit at many nodes comes before one that is far above it at one; a node that is late, lies beyond measure or repeats itself adds nothing.
func TestTopAddsUp(t *testing.T) {
	at := func(s string, rate float64) Offender { return Offender{netip.MustParsePrefix(s), rate} }
	var nodes []Node
	for i := range 10 {
		nodes = append(nodes, Node{Report: Report{Node: fmt.Sprintf("gate%d", i), Offenders: []Offender{at("203.0.113.7/32", float64(10+i))}}})
	}
	nodes[3].Offenders = append(nodes[3].Offenders, at("198.51.100.9/32", 90))
	nodes[3].Attacks = map[string]string{"web": "here"}
	nodes[4].Attacks = map[string]string{"web": "gate3", "mail": "here"}
	late := Node{Report: Report{Node: "late", Offenders: []Offender{at("198.51.100.9/32", 1000)}, Attacks: map[string]string{"dns": "here"}}, Late: true}
	liar := Node{Report: Report{Node: "liar", Offenders: []Offender{at("192.0.2.1/32", math.Inf(1)), at("192.0.2.2/32", -1), {netip.Prefix{}, 5}, {netip.MustParsePrefix("192.0.2.3/24"), 5},
		at("192.0.2.4/32", 7), at("192.0.2.4/32", 7)}}}
	for i := range 2 * MaxOffenders {
		liar.Offenders = append(liar.Offenders, at(fmt.Sprintf("192.0.3.%d/32", i), 1e8))
	}
	top := TopOf(append(nodes, late), FleetLimits{})
	if len(top.Offenders) != 2 || top.Nodes != 10 {
		t.Fatalf("%+v", top)
	}
	if o := top.Offenders[0]; o.Prefix.String() != "203.0.113.7/32" || o.PerSecond != 145 || len(o.Nodes) != 10 || o.Nodes[0] != "gate9" {
		t.Errorf("%+v", o)
	}
	if o := top.Offenders[1]; o.PerSecond != 90 || !reflect.DeepEqual(o.Nodes, []string{"gate3"}) {
		t.Errorf("%+v", o)
	}
	want := []FleetAttack{{"mail", map[string]string{"gate4": "here"}}, {"web", map[string]string{"gate3": "here", "gate4": "gate3"}}}
	if !reflect.DeepEqual(top.Attacks, want) {
		t.Errorf("%+v, want %+v", top.Attacks, want)
	}
	named := map[string]float64{}
	for _, o := range TopOf([]Node{liar}, FleetLimits{}).Offenders {
		named[o.Prefix.String()] = o.PerSecond
	}
	if len(named) != MaxOffenders-5 || named["192.0.2.4/32"] != 7 {
		t.Errorf("of a liar %d are taken, 192.0.2.4 at %v", len(named), named["192.0.2.4/32"])
	}
}
