// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"net/netip"
	"testing"
)

// TestOwnAddrsWithoutZeros: the unspecified address is never ours, whatever slots are empty; a
// look-up compares the whole address with the slot of its last byte, as bpf/lib/own.h does.
func TestOwnAddrsWithoutZeros(t *testing.T) {
	has := func(local []netip.Prefix, text string) bool {
		v, a := ownAddrs(local), netip.MustParseAddr(text)
		k := prefixKey(netip.PrefixFrom(a, a.BitLen()), 0)
		b := a.AsSlice()
		slot := int(b[len(b)-1]) % ownSlots
		if a.Is4() {
			return v.V4[slot] == uint32(k.Addr.D[0])
		}
		return v.V6[slot] == k.Addr.D
	}
	own := []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::7/128")}
	for _, local := range [][]netip.Prefix{nil, own} {
		for _, a := range []string{"0.0.0.0", "::", "0.0.0.64", "192.0.2.8", "2001:db8::8"} {
			if has(local, a) {
				t.Errorf("with local addresses %v, %s is taken for one", local, a)
			}
		}
	}
	for _, p := range append(own, netip.MustParsePrefix("192.0.2.64/32"), netip.MustParsePrefix("2001:db8::40/128")) {
		if !has([]netip.Prefix{p}, p.Addr().String()) {
			t.Errorf("%s is local and not found", p)
		}
	}
}
