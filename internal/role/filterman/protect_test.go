// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"net/netip"
	"testing"

	"tidegate/internal/ifp"
	"tidegate/internal/upstreamtest"
)

// No action may match what the border manager protects, or the managers' own traffic.
func TestProtectedFromEveryAction(t *testing.T) {
	n, err := upstreamtest.New(upstreamtest.Options{Prefixes: customers, Own: own, Capacity: 100, Anywhere: true,
		Protect: []netip.Prefix{prefix("10.1.77.0/24")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.Authority.AddFilter(prefix("127.0.0.0/8"), netip.MustParseAddr("127.0.0.1"))
	n.Authority.AddFilter(prefix("10.1.0.0/16"), netip.MustParseAddr("127.0.0.1"))
	for _, action := range []ifp.Action{ifp.Block, ifp.BlockTS0, ifp.ClearTS} {
		for _, direction := range []ifp.Direction{ifp.FromCustomer, ifp.ToCustomer} {
			f := func(src, dst string) ifp.Filter {
				return ifp.Filter{Src: prefix(src), Dst: prefix(dst), Action: action, Direction: direction}
			}
			o := do(t, n, ifp.Install, false, f("10.1.77.1/32", "198.51.100.1/32"), f("203.0.113.1/32", "10.1.77.0/24"),
				f("127.0.0.0/8", "127.0.0.1/32"), f("0.0.0.0/0", "127.0.0.1/32"))
			codes(t, o, ifp.Protected, ifp.Protected, ifp.Protected, ifp.Protected)
		}
	}
	if n.Tables[0].Len() != 0 || n.Border.Count.Protected.Load() != 24 {
		t.Errorf("%d filters, %d refused", n.Tables[0].Len(), n.Border.Count.Protected.Load())
	}
}
