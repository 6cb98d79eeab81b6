// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"tidegate/internal/instance"
	"tidegate/internal/upstream"
)

// Each byte of a filter costs a manager of four million 4 MB, and time to have the kernel clear it.
func TestEntrySize(t *testing.T) {
	if size := unsafe.Sizeof(Entry{}); size > 208 {
		t.Errorf("a filter takes %d bytes, want at most 208", size)
	}
}

// In JSON, words are words and times are times, as detectors and the store of an older version have them.
func TestEntryJSON(t *testing.T) {
	since := time.Date(2026, 11, 28, 12, 0, 0, 5000, time.UTC)
	at := netip.MustParseAddrPort("192.0.2.1:5000")
	e := Entry{Request: Request{Src: netip.MustParsePrefix("10.0.0.1/32"), Witness: Handshake}, Site: Site{State: Partial, BM: &at}, Since: InstantOf(since)}
	text, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"witness":"handshake"`, `"state":"partial"`, `"border_manager":"192.0.2.1:5000"`, `"last_hit":"0001-01-01T00:00:00Z"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	var back Entry
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Witness != Handshake || back.State != Partial || *back.BM != at || !back.Since.Time().Equal(since) || back.LastHit != 0 {
		t.Errorf("%s became %+v", text, back)
	}
	if err := json.Unmarshal([]byte(`{"witness":"oracle","state":"lost"}`), &back); err != nil || back.Witness != SeenUnknown || back.State != NoState {
		t.Errorf("words of another version: %v, %v, %v", err, back.Witness, back.State)
	}
	for w := NoWitness; w <= SeenUnknown; w++ {
		if WitnessOf(w.String()) != w {
			t.Errorf("witness %d is %q, which is %d", w, w, WitnessOf(w.String()))
		}
	}
	for s := NoState; s <= Gone; s++ {
		var again State
		if text, _ := s.MarshalText(); again.UnmarshalText(text) != nil || again != s {
			t.Errorf("state %d is %q, which is %d", s, s, again)
		}
	}
}

// What status, metrics and alerts count filters by are words.
func TestStatesAreCountedByName(t *testing.T) {
	engine, err := NewEngine(netip.MustParseAddrPort("127.0.0.1:0"), 47)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	m := NewManager(Options{Engine: engine, Authority: &upstream.Static{}})
	for i, s := range []State{Asked, Installed, Installed, Refused} {
		e := &Entry{Site: Site{State: s}}
		e.Src, e.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32), netip.MustParsePrefix("198.51.100.1/32")
		m.entries.put(keyOf(e.Src, e.Dst), e)
	}
	s := instance.Upstream{Figures: map[string]uint64{}}
	m.state(&s)
	for name, want := range map[string]uint64{"filters_asked": 1, "filters_installed": 2, "filters_partial": 0, "filters_refused": 1} {
		if n, ok := s.Figures[name]; !ok || n != want {
			t.Errorf("%s: %d, want %d; all: %v", name, n, want, s.Figures)
		}
	}
}

// A process's first instant is not "none", and ages do not follow the clock of the day.
func TestInstant(t *testing.T) {
	if InstantOf(began) == 0 || InstantOf(time.Time{}) != 0 || !Instant(0).Time().IsZero() {
		t.Error("no time and a time are the same")
	}
	now := time.Now()
	if age := now.Sub(InstantOf(now.Add(-time.Hour)).Time()); age != time.Hour {
		t.Errorf("an hour's age is %v", age)
	}
	if !strings.Contains(InstantOf(now).Time().String(), "m=") {
		t.Error("an instant has lost the steady clock")
	}
}
