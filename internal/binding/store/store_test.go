// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/binding"
)

const (
	bm   = binding.BorderManager
	fm   = binding.FilterManager
	auth = binding.Authority
)

func TestAuthorityChain(t *testing.T) {
	s := newStore(t, testOptions())
	early := sign(t, spec{by: "isp", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}})
	admit(t, s, early, binding.NoAuthority)
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.1.0.0/16", "192.0.2.0/24"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "rir-b", to: "isp", role: auth, prefixes: []string{"10.1.0.0/16"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.1.0.0/16"}}), binding.OK)
	admit(t, s, early, binding.OK)
	admit(t, s, early, binding.Duplicate)
	admit(t, s, sign(t, spec{by: "isp", to: "fm", role: fm, prefixes: []string{"10.1.0.0/15"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "isp", to: "fm", role: fm, prefixes: []string{"10.1.2.0/24", "10.2.0.0/24"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "isp", to: "fm", role: fm, prefixes: []string{"::/0"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "isp", to: "isp2", role: auth, prefixes: []string{"0.0.0.0/0"}}), binding.Wider)
	admit(t, s, sign(t, spec{by: "nobody", to: "fm", role: fm, prefixes: []string{"10.1.2.0/24"}}), binding.NoAuthority)
	admit(t, s, sign(t, spec{by: "bm", to: "fm", role: fm, prefixes: []string{"10.1.2.0/24"}}), binding.NoAuthority) // a manager is no authority
	admit(t, s, sign(t, spec{by: "rir-b", to: "fm", role: fm, prefixes: []string{"192.0.2.128/25"}}), binding.OK)    // an anchor may bind managers
	admit(t, s, sign(t, spec{by: "isp", to: "fm", role: fm, prefixes: []string{"10.1.2.0/24"}, from: -100 * day}), binding.Expired)
	admit(t, s, sign(t, spec{by: "isp", to: "fm", role: fm, prefixes: []string{"10.1.2.0/24"}, from: time.Hour}), binding.NotYetValid)
}

func TestDepth(t *testing.T) {
	s := newStore(t, testOptions())
	names := []string{"rir-a", "a1", "a2", "a3", "a4", "a5"}
	for i := range 4 {
		admit(t, s, sign(t, spec{by: names[i], to: names[i+1], role: auth, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	}
	admit(t, s, sign(t, spec{by: "a4", to: "m", role: bm, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	admit(t, s, sign(t, spec{by: "a4", to: "a5", role: auth, prefixes: []string{"10.0.0.0/8"}}), binding.TooDeep)
}

func TestSerials(t *testing.T) {
	s := newStore(t, testOptions())
	at := func(serial uint64, prefix string) *binding.Record {
		return sign(t, spec{by: "rir-a", to: "bm", role: bm, prefixes: []string{prefix}, serial: serial})
	}
	admit(t, s, at(5, "10.1.0.0/16"), binding.OK)
	admit(t, s, at(4, "10.2.0.0/16"), binding.Stale)
	admit(t, s, at(6, "10.3.0.0/16"), binding.OK)
	if s.Len() != 1 || s.BorderManagerFor(netip.MustParseAddr("10.1.0.1")) != nil || s.BorderManagerFor(netip.MustParseAddr("10.3.0.1")) == nil {
		t.Error("the older record still counts")
	}
	// One serial signed twice: every store settles for the same one, whatever came first.
	a, b := at(7, "10.4.0.0/16"), at(7, "10.5.0.0/16")
	for _, order := range [][]*binding.Record{{a, b}, {b, a}} {
		s := newStore(t, testOptions())
		for _, r := range order {
			s.Admit(r.Raw(), testNow)
		}
		winner := a
		if b.Supersedes(a) {
			winner = b
		}
		if s.Len() != 1 || s.Get(BindTree, winner.Slot(), winner.Digest()) == nil {
			t.Error("the winner depends on the order")
		}
	}
}

func TestRevocation(t *testing.T) {
	s := newStore(t, testOptions())
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	old := sign(t, spec{by: "isp", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}, serial: 3})
	filter := sign(t, spec{by: "isp", to: "bm", role: fm, prefixes: []string{"10.1.0.0/16"}, serial: 3})
	admit(t, s, old, binding.OK)
	admit(t, s, filter, binding.OK)
	admit(t, s, sign(t, spec{by: "isp", to: "bm", role: bm, serial: 4, revoke: true}), binding.OK)
	if s.BorderManagerFor(netip.MustParseAddr("10.1.0.1")) != nil || !s.MayRequest(publicKey("bm"), netip.MustParsePrefix("10.1.2.0/24")) {
		t.Error("the revocation of one role must end that role only")
	}
	admit(t, s, old, binding.Stale)
	admit(t, s, sign(t, spec{by: "isp", to: "bm", role: binding.WholeKey, revoke: true}), binding.OK)
	if s.MayRequest(publicKey("bm"), netip.MustParsePrefix("10.1.2.0/24")) {
		t.Error("a revoked key may still request")
	}
	admit(t, s, filter, binding.Revoked)
	admit(t, s, sign(t, spec{by: "isp", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}, serial: 99}), binding.Revoked)
	// Others' keys are not theirs to revoke.
	admit(t, s, sign(t, spec{by: "rir-a", to: "other", role: fm, prefixes: []string{"10.9.0.0/16"}}), binding.OK)
	admit(t, s, sign(t, spec{by: "isp", to: "other", role: binding.WholeKey, revoke: true}), binding.OK)
	if !s.MayRequest(publicKey("other"), netip.MustParsePrefix("10.9.0.0/16")) {
		t.Error("one issuer revoked what another had bound")
	}
	admit(t, s, sign(t, spec{by: "stranger", to: "other", role: binding.WholeKey, revoke: true}), binding.NoAuthority)
}

// TestAuthorityEnds: revoked, narrowed or expired, what hung on it goes.
func TestAuthorityEnds(t *testing.T) {
	build := func() *Store {
		s := newStore(t, testOptions())
		admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.0.0.0/8"}, life: 30 * day}), binding.OK)
		admit(t, s, sign(t, spec{by: "isp", to: "sub", role: auth, prefixes: []string{"10.1.0.0/16"}}), binding.OK)
		admit(t, s, sign(t, spec{by: "sub", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}}), binding.OK)
		admit(t, s, sign(t, spec{by: "isp", to: "bm2", role: bm, prefixes: []string{"10.2.0.0/16"}}), binding.OK)
		// These two sign each other: neither may hold the other up.
		admit(t, s, sign(t, spec{by: "sub", to: "isp", role: auth, prefixes: []string{"10.1.0.0/16"}}), binding.OK)
		return s
	}
	t.Run("revoked", func(t *testing.T) {
		s := build()
		admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, serial: 2, revoke: true}), binding.OK)
		if s.Len() != 1 {
			t.Errorf("%d records remain, want the revocation only", s.Len())
		}
	})
	t.Run("key revoked", func(t *testing.T) {
		s := build()
		admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: binding.WholeKey, revoke: true}), binding.OK)
		if s.Len() != 1 {
			t.Errorf("%d records remain, want the revocation only", s.Len())
		}
	})
	t.Run("narrowed", func(t *testing.T) {
		s := build()
		admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.2.0.0/15"}, serial: 2}), binding.OK)
		if s.Len() != 2 || s.BorderManagerFor(netip.MustParseAddr("10.2.0.1")) == nil {
			t.Errorf("%d records remain, want isp and bm2", s.Len())
		}
	})
	t.Run("expired", func(t *testing.T) {
		s := build()
		if n := s.Expire(testNow.Add(29 * day)); n != 0 {
			t.Errorf("%d expired too early", n)
		}
		later := testNow.Add(30*day + binding.Skew)
		s.opts.Clock = func() time.Time { return later }
		if s.BorderManagerFor(netip.MustParseAddr("10.2.0.1")) != nil || s.MayRequest(publicKey("bm"), netip.MustParsePrefix("10.1.0.0/16")) {
			t.Error("look-ups find what hangs on an expired authority, before Expire is called")
		}
		if n := s.Expire(later); n != 5 || s.Len() != 0 {
			t.Errorf("%d expired, %d remain", n, s.Len())
		}
	})
}

func TestBounds(t *testing.T) {
	o := testOptions()
	o.MaxRecords, o.MaxPerIssuer = 16, 3
	s := newStore(t, o)
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	for i := range 4 {
		want := binding.OK
		if i == 3 {
			want = binding.Full
		}
		admit(t, s, sign(t, spec{by: "isp", to: fmt.Sprint("m", i), role: bm, prefixes: []string{"10.0.0.0/8"}}), want)
	}
	for i := 0; s.Len() < 14; i++ {
		admit(t, s, sign(t, spec{by: "rir-a", to: fmt.Sprint("x", i), role: bm, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	}
	admit(t, s, sign(t, spec{by: "rir-a", to: "late", role: bm, prefixes: []string{"10.0.0.0/8"}}), binding.Full)
	admit(t, s, sign(t, spec{by: "rir-a", to: "m0", role: bm, prefixes: []string{"10.0.0.0/8"}}), binding.Full)
	admit(t, s, sign(t, spec{by: "rir-a", to: "x0", role: bm, prefixes: []string{"10.0.0.0/9"}, serial: 2}), binding.OK) // replaces
	// The reserve is for authorities and revocations.
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp2", role: auth, prefixes: []string{"10.0.0.0/8"}}), binding.OK)
	admit(t, s, sign(t, spec{by: "rir-a", to: "isp", role: binding.WholeKey, revoke: true}), binding.OK)
	if s.Len() >= 14 {
		t.Errorf("%d records: the revoked key's are still there", s.Len())
	}
}

func TestSignatureIsChecked(t *testing.T) {
	s := newStore(t, testOptions())
	raw := append([]byte(nil), sign(t, spec{by: "rir-a", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}}).Raw()...)
	raw[len(raw)-1] ^= 1
	if _, err := s.Admit(raw, testNow); binding.CodeOf(err) != binding.BadSignature || s.Len() != 0 {
		t.Errorf("%v, %d records", err, s.Len())
	}
}

func TestLookups(t *testing.T) {
	s := newStore(t, testOptions())
	admit(t, s, sign(t, spec{by: "rir-a", to: "wide", role: bm, prefixes: []string{"10.0.0.0/8", "2001:db8::/32"}}), binding.OK)
	admit(t, s, sign(t, spec{by: "rir-a", to: "narrow", role: bm, prefixes: []string{"10.1.0.0/16"}, life: 10 * day}), binding.OK)
	admit(t, s, sign(t, spec{by: "rir-a", to: "f1", role: fm, prefixes: []string{"10.0.0.0/8"}, endpoint: "ifp=192.0.2.9:1"}), binding.OK)
	admit(t, s, sign(t, spec{by: "rir-a", to: "f2", role: fm, prefixes: []string{"10.1.0.0/16"}, endpoint: "flood=192.0.2.10:1"}), binding.OK)
	for addr, want := range map[string]string{
		"10.1.2.3": "narrow", "10.2.2.3": "wide", "2001:db8::1": "wide", "::ffff:10.1.0.1": "narrow", "192.0.2.1": "", "::1": "",
	} {
		r := s.BorderManagerFor(netip.MustParseAddr(addr))
		if (r == nil) != (want == "") || r != nil && r.Key != publicKey(want) {
			t.Errorf("%s: %v, want %s", addr, r, want)
		}
	}
	if list := s.FilterManagersFor(netip.MustParsePrefix("10.1.2.0/24")); len(list) != 2 || list[0].Key != publicKey("f2") {
		t.Errorf("filter managers of 10.1.2.0/24: %v", list)
	}
	if list := s.FilterManagersFor(netip.MustParsePrefix("10.0.0.0/15")); len(list) != 1 || list[0].Key != publicKey("f1") {
		t.Errorf("filter managers of 10.0.0.0/15: %v", list)
	}
	for _, tc := range []struct {
		key, prefix string
		want        bool
	}{
		{"f1", "10.200.0.0/16", true}, {"f2", "10.1.0.0/16", true}, {"f2", "10.1.2.3/32", true}, {"f2", "10.0.0.0/15", false},
		{"f2", "10.2.0.0/16", false}, {"wide", "10.1.0.0/16", false}, {"nobody", "10.1.0.0/16", false}, {"f1", "0.0.0.0/0", false},
	} {
		if got := s.MayRequest(publicKey(tc.key), netip.MustParsePrefix(tc.prefix)); got != tc.want {
			t.Errorf("MayRequest(%s, %s) = %v", tc.key, tc.prefix, got)
		}
	}
	for from, want := range map[string]bool{"192.0.2.9": true, "::ffff:192.0.2.9": true, "192.0.2.10": false, "192.0.2.1": false} {
		if got := s.MayRequestFrom(netip.MustParseAddr(from), netip.MustParsePrefix("10.1.0.0/24")); got != want {
			t.Errorf("MayRequestFrom(%s) = %v", from, got)
		}
	}
	managersOf := func(p string, most int) (list []string) {
		s.BorderManagersFor(netip.MustParsePrefix(p), func(r *binding.Record) bool {
			for _, name := range []string{"wide", "narrow"} {
				if r.Key == publicKey(name) {
					list = append(list, name)
				}
			}
			return len(list) < most
		})
		return list
	}
	for p, want := range map[string][]string{"10.0.0.0/15": {"wide", "narrow"}, "10.1.2.0/24": {"narrow"}, "10.2.0.0/16": {"wide"}, "0.0.0.0/0": {"wide", "narrow"},
		"2001:db8:1::/48": {"wide"}, "192.0.2.0/24": nil} {
		if got := managersOf(p, 9); !slices.Equal(got, want) {
			t.Errorf("border managers of %s: %v, want %v", p, got, want)
		}
	}
	if got := managersOf("10.0.0.0/15", 1); len(got) != 1 {
		t.Errorf("%v were visited, want one", got)
	}
	// The narrow one has run out: the next longest prefix answers, before Expire and after.
	later := testNow.Add(11 * day)
	s.opts.Clock = func() time.Time { return later }
	for range 2 {
		if r := s.BorderManagerFor(netip.MustParseAddr("10.1.2.3")); r == nil || r.Key != publicKey("wide") {
			t.Errorf("after expiry: %v", r)
		}
		if got := managersOf("10.1.2.0/24", 9); !slices.Equal(got, []string{"wide"}) {
			t.Errorf("after expiry: %v", got)
		}
		s.Expire(later)
	}
}

// TestDigests: stores with the same records, however they came, have the same
// hashes; one record more is seen from the root down to its entry.
func TestDigests(t *testing.T) {
	var list []*binding.Record
	for i := range 300 {
		list = append(list, sign(t, spec{by: "rir-a", to: fmt.Sprint("m", i), role: bm, prefixes: []string{"10.0.0.0/8"}}))
	}
	a, b := newStore(t, testOptions()), newStore(t, testOptions())
	extra := sign(t, spec{by: "rir-a", to: "extra", role: bm, prefixes: []string{"10.0.0.0/8"}})
	admit(t, b, extra, binding.OK)
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(len(list)) {
		admit(t, a, list[i], binding.OK)
		admit(t, b, list[j], binding.OK)
		if i%50 == 0 {
			a.Roots() // hashing in between must change nothing
		}
	}
	if a.Roots()[GovernTree] != b.Roots()[GovernTree] || a.Roots()[BindTree] == b.Roots()[BindTree] {
		t.Fatal("roots do not show the difference, or show one that is not there")
	}
	leaf := LeafOf(extra.Slot())
	for i, h := range a.Children(BindTree, 0) {
		if (h == b.Children(BindTree, 0)[i]) == (i == leaf/Fanout) {
			t.Errorf("node %d", i)
		}
	}
	for i, h := range a.Children(BindTree, 1+leaf/Fanout) {
		if (h == b.Children(BindTree, 1+leaf/Fanout)[i]) == (i == leaf%Fanout) {
			t.Errorf("leaf %d of its node", i)
		}
	}
	entries, more := b.AppendEntries(nil, BindTree, leaf, nil, 1<<20)
	found := 0
	for i := 0; i < len(entries); i += EntryLen {
		if e := ParseEntry(entries[i:]); a.Wants(BindTree, e) {
			found++
			if b.Get(BindTree, e.Slot, e.Digest) == nil {
				t.Error("the entry does not lead to its record")
			}
		}
	}
	if more || found != 1 {
		t.Errorf("%d wanted entries in the leaf, more %v", found, more)
	}
	admit(t, a, extra, binding.OK)
	if a.Roots() != b.Roots() {
		t.Error("the same records, other roots")
	}
}

func TestEntriesPaged(t *testing.T) {
	s := newStore(t, testOptions())
	for i := range 100 {
		r := *sign(t, spec{by: "rir-a", to: fmt.Sprint("m", i), role: bm, prefixes: []string{"10.0.0.0/8"}})
		s.trees[BindTree].leaves[7] = append(s.trees[BindTree].leaves[7], &r) // as if somebody had ground out slots
	}
	leaf := s.trees[BindTree].leaves[7]
	sortBySlot(leaf)
	var after *binding.Slot
	seen := 0
	for {
		page, more := s.AppendEntries(nil, BindTree, 7, after, 10*EntryLen)
		seen += len(page) / EntryLen
		if !more {
			break
		}
		last := ParseEntry(page[len(page)-EntryLen:]).Slot
		after = &last
	}
	if seen != 100 {
		t.Errorf("%d entries over all pages, want 100", seen)
	}
}
