// SPDX-License-Identifier: Apache-2.0

package strategies

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/test/world"
)

// The paper's statements on forged floods hold: a RST flood gets its sources
// whitelisted under auth-wrong, an ACK flood under auth-full, and neither under auth-cookie.
func TestStrategies(t *testing.T) {
	world.NeedRoot(t)
	o := Options{Strategies: []string{"auth-wrong", "auth-full", "auth-cookie", "cookie"}, Frames: 1000, Clients: 5,
		Rate: 20000, Unanswered: 300 * time.Millisecond, Exe: tidegate}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]Figures{}
	for _, f := range r.Figures {
		figures[f.Strategy] = f
		if f.Refused != 0 || f.MemoryPerSYN != 0 || f.AnswersUnasked != 0 || !f.AnswersRetransmits {
			t.Errorf("%s: %+v", f.Strategy, f)
		}
	}
	for strategy, through := range map[string]string{"auth-wrong": "rst", "auth-full": "ack", "auth-cookie": "", "cookie": ""} {
		for kind, forged := range figures[strategy].Forged {
			// Random sources repeat now and then: a few in a million.
			if want := kind == through; forged.Arrived == 0 || want && forged.Share < 0.99 || !want && forged.Accepted != 0 {
				t.Errorf("%s under a %s flood: %+v", strategy, kind, forged)
			}
		}
	}
	if f := figures["cookie"]; f.SegmentsChanged != f.Segments || f.EntriesOneSrc != heldForEntries || f.CoreLost || f.FirstOK != f.FirstTried {
		t.Errorf("cookie: %+v", f)
	}
	if f := figures["auth-full"]; f.SegmentsChanged != 0 || f.EntriesOneSrc != 1 || f.EntriesManySrc != heldForEntries || f.FirstOK != 0 || len(f.OptionsLost) != 0 {
		t.Errorf("auth-full: %+v", f)
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"auth-wrong: published -, measured +", "+ if no source of a SYN, ACK or RST flood gets through", "not measured: cache, auth-ttl"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, b.String())
		}
	}
}

// Marks depend on figures only.
func TestMarks(t *testing.T) {
	count := func(v int) *int { return &v }
	r := &Report{SipHash: 20, Reflect: 10, Figures: []Figures{
		{Strategy: "cookie", MemoryPerSYN: 0.5, Instructions: count(90), FirstTried: 10, FirstOK: 10, OptionsAsked: 40, Legit: 100, Refused: 1, Segments: 40, SegmentsChanged: 40,
			EntriesOneSrc: heldForEntries, EntryBytes: 120, LooksUpOther: true},
		{Strategy: "auth-full", MemoryPerSYN: 20, Instructions: count(70), FirstTried: 10, FirstOK: 9, OptionsAsked: 40, OptionsLost: []string{"x"}, CoreLost: true, AnswersRetransmits: true,
			Forged: map[string]Forged{"ack": {Share: 0.005}}, Legit: 100, Refused: 2, Segments: 40, EntriesOneSrc: 1, EntryBytes: 88, LooksUpSYN: true, LooksUpOther: true},
		{Strategy: "cache", Instructions: nil, AnswersUnasked: 1, Forged: map[string]Forged{"rst": {Share: 1}}, OptionsLost: []string{"x"}},
	}}
	r.judge()
	got := map[string]string{}
	for _, row := range slices.Concat(r.TableI, r.TableII) {
		for s, c := range row.Cells {
			got[s] += word(c.Mark == "", "?", c.Mark) + "|"
		}
		if row.Threshold == "" {
			t.Errorf("%s has no threshold", row.Name)
		}
	}
	for s, want := range map[string]string{
		"cookie":    "+|-|+|+|+|-|+|o|every segment|yes|full|flow|4-tuple|> 32 bit|not SYN|",
		"auth-full": "-|+|++|-|-|o|o|-|handshake|no|limited|source|src. IP|> 32 bit|every segment|",
	} {
		if got[s] != want {
			t.Errorf("%s: got %s, want %s", s, got[s], want)
		}
	}
	if !strings.HasPrefix(got["cache"], "+|?|?|+|o|+|-|+|") {
		t.Errorf("cache: got %s", got["cache"])
	}
	// A published "-/o" matches either; what was not measured contradicts nothing.
	for _, d := range r.Disagrees {
		if strings.Contains(d, "efficiency, cache") || strings.Contains(d, "CPU immunity, cache") {
			t.Errorf("%s", d)
		}
	}
	if !slices.ContainsFunc(r.Disagrees, func(d string) bool {
		return strings.HasPrefix(d, "Table I, memory immunity, auth-full: published +, measured -")
	}) {
		t.Errorf("disagreements: %q", r.Disagrees)
	}
}
