// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"time"
)

// skewTolerated is what a report's way and rounding may look like.
const skewTolerated = 2 * time.Second

// Wrong says for each node what an operator has to look at.
func Wrong(now Revision, nodes []Node) map[string][]string {
	keys := map[string]int{}
	for _, n := range nodes {
		keys[n.inUse()]++
	}
	most := ""
	for key, count := range keys {
		if count > keys[most] || count == keys[most] && key < most {
			most = key
		}
	}
	wrong := map[string][]string{}
	for _, n := range nodes {
		name := n.Report.Node
		say := func(format string, args ...any) { wrong[name] = append(wrong[name], fmt.Sprintf(format, args...)) }
		switch {
		case n.Late:
			say("no report for %v: cut off, or gone; it goes on with revision %d", time.Since(n.Received).Round(time.Second), n.Revision)
		case n.Refused != 0:
			say("refuses revision %d: %s", n.Refused, n.Error)
		case n.Error != "":
			say("%s", n.Error)
		case now.wanted(name) != 0 && n.Revision != now.wanted(name):
			say("has revision %d, should have %d", n.Revision, now.wanted(name))
		}
		if n.Skew.Abs() > skewTolerated && !n.Late {
			say("its clock differs by %v: synchronize it (NTP)", n.Skew.Round(time.Second))
		}
		if what := now.Desired.Secret.lacks(&n.Report); what != "" && n.Key != "" {
			say("%s", what)
		}
		if n.inUse() != most && n.Key != "" {
			say("has a secret that most others do not have: cookies of one are invalid at the other")
		}
		if len(n.Degraded) > 0 {
			say("degraded: %s", strings.Join(n.Degraded, ", "))
		}
	}
	return wrong
}

// wanted is the revision that a node of that name should have; of garbage, what it has is right.
func (r *Revision) wanted(name string) uint64 {
	s := stored{Only: r.Only, Rest: r.Rest}
	n, _ := s.forNode(name, r.Number)
	return n
}
