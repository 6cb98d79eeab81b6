// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"strings"
	"testing"
)

// A start has room for 512 services. A reload that brings more is refused, says why and what helps, and changes nothing; a restart makes
// the room, and clients notice nothing of either.
func TestServicesBeyondTheRoom(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	few := w.webConfig(webPort)
	many := few
	for i := range 512 {
		many += fmt.Sprintf("  - {name: s%d, ports: [%d], mode: always}\n", i, 20_000+i)
	}
	g := w.start(few)
	l := w.startLoad()
	l.more(20)
	g.Reload(many, "reload refused", "room for 512", "start `tidegate run` again")
	l.more(20)
	if n := len(w.status().Services); n != 1 {
		t.Errorf("%d services after the refusal, want 1", n)
	}
	g.Reload(few+strings.Join(strings.SplitAfter(many[len(few):], "\n")[:511], ""), "msg=reloaded") // 512 in all
	l.more(20)
	g.Stop()
	l.more(20)
	w.start(many)
	l.more(20)
	if n := len(w.status().Services); n != 513 {
		t.Errorf("%d services after the restart, want 513", n)
	}
	l.end()
	l.noFailure()
	w.wantCounters(map[string]uint64{"cookie_invalid": 0})
}
