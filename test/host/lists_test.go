// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/api"
	"tidegate/internal/lab/load"
)

// Lists of files: the longest prefix decides; a reload applies a changed file, and refuses one with a wrong line, by its number.
func TestListFiles(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	write := func(name, text string) {
		t.Helper()
		w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
	}
	four, six := w.ClientAddr(false), w.ClientAddr(true)
	write("deny", "203.0.113.0/24 # nobody here\n")
	write("allow", "")
	conf := w.webConfig(webPort, "allow_list: allow", "deny_list: deny")
	g := w.start(conf)
	w.mustPingNew(1)
	stays := w.mustDial(false, webPort)

	write("deny", fmt.Sprintf("%s # four\n%s # six\n", four, six))
	g.Reload(conf, "msg=reloaded")
	before := w.counters()["cookie_sent"]
	w.must(load.SendFrames(w.ClientPort, w.syn(false, 5001).Bytes(), w.syn(true, 5002).Bytes()))
	w.await("both SYNs are dropped", func() bool { return w.counters()["drop_denied"] == 2 })
	if now := w.counters()["cookie_sent"]; now != before {
		t.Errorf("%d SYNs of denied sources were answered", now-before)
	}
	w.must(stays.ping()) // what exists goes on
	out, errs, err := w.tidegateRun("why", four.String(), fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
	if err != nil || !strings.Contains(out, "deny "+four.String()+"/32") || !strings.Contains(out, "line 1") || !strings.Contains(out, "four") || !strings.Contains(out, "drop_denied") {
		t.Errorf("%v: %s%s", err, out, errs)
	}

	// A wider denial with an exception.
	write("deny", "0.0.0.0/0\n::/0\n")
	write("allow", fmt.Sprintf("%s\n%s\n", four, six))
	g.Reload(conf, "msg=reloaded")
	w.mustPingNew(1)
	if st := w.status(); st.Lists == nil || st.Lists.Deny != 2 || st.Lists.Allow != 2 {
		t.Errorf("%+v", st.Lists)
	}

	// One line is wrong: the old lists hold.
	write("allow", "192.0.2.0/24\n192.0.2.1/24\n")
	w.in.Write(conf)
	if _, errs, err := w.tidegateRun("reload", "--instance", w.Instance); err == nil || !strings.Contains(errs, "line 2") || !strings.Contains(errs, "192.0.2.0/24, or 192.0.2.1") {
		t.Errorf("%v: %s", err, errs)
	}
	w.mustPingNew(1)

	// No lists, no denials.
	g.Reload(w.webConfig(webPort), "msg=reloaded")
	w.mustPingNew(1)
	if st := w.status(); st.Lists != nil {
		t.Errorf("%+v", st.Lists)
	}
}

// Prefixes by hand: at once, with expiry, across a restart; removed, the source is served again.
func TestListsByHand(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	conf := w.webConfig(webPort)
	g := w.start(conf)
	four := w.ClientAddr(false).String()
	tg := func(args ...string) string {
		t.Helper()
		out, errs, err := w.tidegateRun(append(args, "--instance", w.Instance)...)
		if err != nil {
			t.Fatalf("%v: %v: %s%s", args, err, out, errs)
		}
		return out
	}
	verdict := func() (counter string) {
		t.Helper()
		var a struct{ Reasons map[string]uint64 }
		w.must(json.Unmarshal([]byte(tg("why", four, fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--json")), &a))
		for name := range a.Reasons {
			if name == "drop_denied" || name == "cookie_sent" {
				counter = name
			}
		}
		return counter
	}
	tg("deny", four, "--comment", "too loud")
	if v := verdict(); v != "drop_denied" {
		t.Errorf("denied by hand: %s", v)
	}
	var all []api.ListEntry
	w.must(json.Unmarshal([]byte(tg("lists", "--json")), &all))
	if len(all) != 1 || all[0].Prefix != four+"/32" || all[0].Comment != "too loud" || all[0].Until != nil {
		t.Errorf("%+v", all)
	}
	// It survives a restart, and `allow` takes the place of `deny`.
	g.Stop()
	w.start(conf)
	if v := verdict(); v != "drop_denied" {
		t.Errorf("after a restart: %s", v)
	}
	tg("allow", four)
	if v := verdict(); v != "cookie_sent" {
		t.Errorf("allowed by hand: %s", v)
	}
	tg("deny", "0.0.0.0/0")
	if v := verdict(); v != "cookie_sent" {
		t.Errorf("an exception from a wider denial: %s", v)
	}
	tg("lists", "remove", four)
	if v := verdict(); v != "drop_denied" {
		t.Errorf("without the exception: %s", v)
	}
	// An entry expires by itself.
	tg("deny", "0.0.0.0/0", "--for", "1s")
	began := time.Now()
	w.await("the denial expires", func() bool { return verdict() == "cookie_sent" })
	t.Logf("expired after %v", time.Since(began).Round(100*time.Millisecond))
	for args, want := range map[string]string{"deny 192.0.2.1/24": "want 192.0.2.0/24", "deny nonsense": "is no prefix", "deny 192.0.2.0/24 --for -1s": "want a duration",
		"deny 192.0.2.0/24 --until 2001-01-01T00:00:00Z": "has passed", "lists remove 192.0.2.77": "was not allowed or denied by hand"} {
		if _, errs, err := w.tidegateRun(append(strings.Fields(args), "--instance", w.Instance)...); err == nil || !strings.Contains(errs, want) {
			t.Errorf("%s: %v: %s, want %s", args, err, errs, want)
		}
	}
}
