// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"net/netip"
	"testing"
	"time"
)

var t0 = time.Unix(1_700_000_000, 0)

// Without a configured rate a network is still limited; and no network's flood
// costs another network anything.
func TestLimitsAreOfOneNetwork(t *testing.T) {
	l := newLimits(rateOf(0))
	asked := 0
	for l.take(7, 50, false, t0) {
		asked += 50
	}
	if asked != DefaultRate {
		t.Errorf("%d filters at once by default, want %d", asked, DefaultRate)
	}
	if !l.take(8, 50, true, t0) {
		t.Error("another network is refused")
	}
	if !l.take(7, 50, false, t0.Add(time.Millisecond)) || l.take(7, 50, false, t0.Add(time.Millisecond)) {
		t.Error("a millisecond later 50 filters are there again, and no more")
	}
	signed := 0
	for l.take(9, 1, true, t0) {
		signed++
	}
	if signed != proofRate || !l.take(9, 1, false, t0) {
		t.Errorf("%d signatures at once, want %d; and without one it goes on", signed, proofRate)
	}
	if any := newLimits(rateOf(-1)); !any.take(7, 1<<30, true, t0) {
		t.Error("rate 0 of the configuration is any")
	}
	if low := newLimits(10); !low.take(1, 58, false, t0) || low.take(1, 1, false, t0) || !low.take(1, 58, false, t0.Add(time.Second)) {
		t.Error("a full message at a low rate: once a second")
	}
}

// Strangers share one allowance and leave no state behind.
func TestStrangersLeaveNothing(t *testing.T) {
	l := newLimits(100)
	asked := 0
	for l.take(0, 10, true, t0) {
		asked += 10
	}
	if asked != strangersRate || len(l.owners) != 0 {
		t.Errorf("strangers were judged for %d filters and left %d entries", asked, len(l.owners))
	}
	if !l.take(1, 10, true, t0) {
		t.Error("a network is refused because of strangers")
	}
}

// Filling the table removes no network that has just used up its allowance.
func TestFullTableForgetsNobody(t *testing.T) {
	l := newLimits(100)
	for l.take(1, 100, false, t0) {
	}
	for owner := uint32(2); owner <= limitsMax; owner++ {
		if !l.take(owner, 1, false, t0) {
			t.Fatal(owner)
		}
	}
	if l.take(limitsMax+1, 1, false, t0) || l.take(1, 1, false, t0) {
		t.Error("with a full table: a new network, or one that has nothing left, may ask")
	}
	later := t0.Add(time.Second)
	if !l.take(limitsMax+1, 1, false, later) || len(l.owners) != 1 {
		t.Errorf("a second later: %d are remembered", len(l.owners))
	}
}

func TestAnswersAreRememberedAsLongAsNonces(t *testing.T) {
	a := newAnswered()
	from, other := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:1")
	a.put(5, from, 77, []byte("first"), t0)
	a.put(5, from, 77, []byte("second"), t0)
	if b, ok := a.find(5, from, 77); !ok || string(b) != "first" {
		t.Errorf("%q %v", b, ok)
	}
	if _, ok := a.find(5, other, 77); ok {
		t.Error("another's")
	}
	if _, ok := a.find(5, from, 78); ok {
		t.Error("another request")
	}
	a.expire(t0.Add(answeredFor - 1))
	if _, ok := a.find(5, from, 77); !ok {
		t.Error("forgotten while its nonce may be good")
	}
	a.expire(t0.Add(answeredFor))
	if _, ok := a.find(5, from, 77); ok || len(a.by) != 0 {
		t.Error("kept for ever")
	}
	for i := range uint64(answeredMax + 5000) {
		a.put(i+1, from, i, nil, t0)
	}
	if len(a.by) != answeredMax || a.Forgot() != 5000 {
		t.Errorf("%d are kept, %d forgotten", len(a.by), a.Forgot())
	}
	if _, ok := a.find(5000, from, 4999); ok {
		t.Error("the oldest stay")
	}
	if _, ok := a.find(5001, from, 5000); !ok {
		t.Error("not only the oldest go")
	}
}
