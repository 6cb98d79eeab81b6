// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/ed25519"
	"crypto/sha256"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/binding"
)

var testNow = time.Unix(1800000000, 0)

const day = 24 * time.Hour

func privateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicKey(name string) binding.Key {
	return binding.Key(privateKey(name).Public().(ed25519.PublicKey))
}

func prefixes(list ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range list {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// spec is a record in short: its issuer and subject by name.
type spec struct {
	by, to   string
	role     binding.Role
	prefixes []string
	serial   uint64
	revoke   bool
	from     time.Duration // after testNow; validity begins a day earlier
	life     time.Duration // 0: 90 days; revocations: 405 days
	endpoint string
}

func sign(t testing.TB, s spec) *binding.Record {
	t.Helper()
	r := binding.Record{Role: s.role, Key: publicKey(s.to), Serial: max(s.serial, 1), Revoked: s.revoke}
	life := s.life
	if life == 0 {
		life = 90 * day
		if s.revoke {
			life = binding.MinRevocation
		}
	}
	begin := testNow.Add(s.from - time.Minute)
	r.NotBefore, r.NotAfter = begin.Unix(), begin.Add(life).Unix()
	if !s.revoke {
		r.Prefixes = prefixes(s.prefixes...)
		if s.role != binding.Authority {
			if s.endpoint == "" {
				s.endpoint = "ifp=192.0.2.1:4141"
			}
			e, err := binding.ParseEndpoint(s.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			r.Endpoints = []binding.Endpoint{e}
		}
	}
	signed, err := binding.Sign(r, privateKey(s.by))
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return signed
}

func testOptions() Options {
	return Options{
		Anchors: []binding.Anchor{
			{Name: "rir-a", Key: publicKey("rir-a"), Prefixes: prefixes("10.0.0.0/8", "2001:db8::/32")},
			{Name: "rir-b", Key: publicKey("rir-b"), Prefixes: prefixes("192.0.2.0/24")},
		},
		Clock: func() time.Time { return testNow },
	}
}

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// admit wants a record refused with a code, or accepted (binding.OK).
func admit(t testing.TB, s *Store, r *binding.Record, want binding.Code) {
	t.Helper()
	_, err := s.Admit(r.Raw(), testNow)
	if got := binding.CodeOf(err); got != want {
		t.Fatalf("%s %s by %s: %s (%v), want %s", r.Role, r.Key, r.Issuer, got, err, want)
	}
}

func sortBySlot(list []*binding.Record) {
	slices.SortFunc(list, func(a, b *binding.Record) int { return compareSlot(a, b.Slot()) })
}
