// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"tidegate/internal/binding"
)

// fill makes a store of n bindings, half of them border managers, each with a
// /24 of its own. Signatures are not checked: they are not what is measured.
func fill(b *testing.B, n int) *Store {
	o := testOptions()
	o.Verify = func(*binding.Record) error { return nil }
	s := newStore(b, o)
	template := sign(b, spec{by: "rir-a", to: "m", role: bm, prefixes: []string{"10.0.0.0/8"}})
	for i := range n {
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], 10<<24|uint32(i/2)<<8)
		r := *template
		r.Role = bm + binding.Role(i%2)
		r.Prefixes = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(addr), 24)}
		r.Key = binding.Key{}
		binary.BigEndian.PutUint32(r.Key[:], uint32(i))
		r.Issuer = publicKey("rir-a")
		signed, err := binding.Sign(r, privateKey("rir-a"))
		if err != nil {
			b.Fatal(err)
		}
		admit(b, s, signed, binding.OK)
	}
	return s
}

func BenchmarkLookups80000(b *testing.B) {
	s := fill(b, 80000)
	var addr [4]byte
	i := uint32(0)
	next := func() netip.Addr {
		i += 2654435761
		binary.BigEndian.PutUint32(addr[:], 10<<24|i%40000<<8|7)
		return netip.AddrFrom4(addr)
	}
	b.Run("BorderManagerFor", func(b *testing.B) {
		for b.Loop() {
			if s.BorderManagerFor(next()) == nil {
				b.Fatal("not found")
			}
		}
	})
	b.Run("MayRequest", func(b *testing.B) {
		var key binding.Key
		for b.Loop() {
			p := netip.PrefixFrom(next(), 32)
			binary.BigEndian.PutUint32(key[:], i%40000*2+1)
			if !s.MayRequest(key, p) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("MayRequestFrom", func(b *testing.B) {
		from := netip.MustParseAddr("192.0.2.1")
		for b.Loop() {
			if !s.MayRequestFrom(from, netip.PrefixFrom(next(), 32)) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("FilterManagersFor", func(b *testing.B) {
		for b.Loop() {
			if len(s.FilterManagersFor(netip.PrefixFrom(next(), 32))) != 1 {
				b.Fatal("not found")
			}
		}
	})
}
