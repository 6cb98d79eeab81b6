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
	st := w.status()
	if len(st.Services) != 1 || st.RefusedReload == nil || !strings.Contains(st.RefusedReload.Error, "room for 512") {
		t.Errorf("after the refusal %d services, refused: %+v", len(st.Services), st.RefusedReload)
	}
	if text, _, err := w.tidegateRun("status", "--instance", w.Instance); err != nil || !strings.Contains(text, "\nLAST RELOAD REFUSED at ") {
		t.Errorf("status: %v, %s", err, text)
	}
	g.Reload(few+strings.Join(strings.SplitAfter(many[len(few):], "\n")[:511], ""), "msg=reloaded") // 512 in all
	if st := w.status(); st.RefusedReload != nil {
		t.Errorf("a reload that succeeded leaves %+v", st.RefusedReload)
	}
	l.more(20)
	g.Reload(many, "reload refused", "room for 512")
	g.Stop()
	l.more(20)
	w.start(many)
	l.more(20)
	if st := w.status(); len(st.Services) != 513 || st.RefusedReload != nil {
		t.Errorf("after the restart %d services, refused: %+v", len(st.Services), st.RefusedReload)
	}
	l.end()
	l.noFailure()
	w.wantCounters(map[string]uint64{"cookie_invalid": 0})
}
