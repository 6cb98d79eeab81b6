// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"tidegate/internal/offender"
	"tidegate/internal/offender/offendertest"
)

// A client that makes too many connections is reported, with its address and the destination
// address; as one whose packets carry no codepoint. No other client is.
func TestOffenderIsReported(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	api := filepath.Join(w.dir, "api")
	reports := offendertest.Listen(t, api)
	w.start(w.config("cookie", "report_to: {api: "+api+", connections: 20}"))
	if err := w.ping(false); err != nil { // few connections are nobody's concern
		t.Fatal(err)
	}
	for _, ipv6 := range families() {
		to := w.ServiceAddr(ipv6, port).Addr()
		dst := netip.PrefixFrom(to, to.BitLen())
		is := func(r offender.Report) bool {
			return r.Dst == dst && r.Src.Bits() == dst.Bits() && r.Witness == "no-ts" && r.Detector != ""
		}
		w.await("report of an offender, "+familyName(ipv6), func() bool {
			for range 10 {
				if err := w.ping(ipv6); err != nil {
					t.Fatal(err)
				}
			}
			return slices.ContainsFunc(reports.Seen(), is)
		})
	}
	for _, r := range reports.Seen() {
		if r.Src.Addr().Is4() != r.Dst.Addr().Is4() || !r.Src.IsSingleIP() || r.Src == r.Dst {
			t.Errorf("reported: %+v", r)
		}
	}
}
