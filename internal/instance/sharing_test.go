// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/detect"
	"tidegate/internal/plane"
)

// What two other nodes see at an address switches this one on for it under `on`, and only prepares it under `prepare`; what it tells them in turn is what it sees itself. What they
// say of a service that it does not have changes nothing.
func TestWithFleet(t *testing.T) {
	victim, other := netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("2001:db8::/64")
	const tenth = 100 * time.Millisecond
	for share, want := range map[config.Sharing]detect.Decision{config.ShareOn: {Prefixes: []int{5}}, config.SharePrepare: {}, config.ShareOff: {}} {
		a := &Automatic{share: share, detection: &Detection{}, places: map[int]plane.Place{5: {At: 5, Prefix: victim}, 9: {At: 9, Prefix: other}}}
		s := &automatic{detect: detect.NewService(detect.Default())}
		if share != config.ShareOff {
			s.shared = detect.NewShared(detect.Default(), fleetClaimLives, 2)
		}
		a.services = map[string]*automatic{"web": s}
		c := detect.Claim{Missing: 9000}
		var d detect.Decision
		for range 20 {
			for _, node := range []string{"gate1", "gate2"} {
				a.detection.Hear(node, []detect.ServiceClaim{{Service: "web", Claim: c, Prefixes: []detect.PrefixClaim{{Prefix: victim, On: true, Claim: c}}}, {Service: "mail", On: true, Claim: c}}, fleetClaimLives)
			}
			a.hear()
			counts := detect.Counts{SYNs: 1}
			s.own = s.detect.Step(detect.Counts{SYNs: 2}, map[int]detect.Counts{5: counts, 9: counts}, tenth)
			d = a.withFleet(s, s.own, tenth)
		}
		if d.All != want.All || !reflect.DeepEqual(d.Prefixes, want.Prefixes) {
			t.Errorf("%s: %+v, want %+v", share, d, want)
		}
		known, claim := a.sharing("web", s)
		if share == config.ShareOff {
			if known != nil || !claim.Idle() {
				t.Errorf("%s: it knows %+v and tells %+v", share, known, claim)
			}
			continue
		}
		if !known.On || !known.Prepared || known.Share != share || known.Heard != 2 || !reflect.DeepEqual(known.Attacked, []string{"gate1", "gate2"}) {
			t.Errorf("%s: it knows %+v", share, known)
		}
		if claim.On || len(claim.Prefixes) != 2 || claim.Prefixes[0].On || claim.Missing > 30 {
			t.Errorf("%s: it echoes what others say: %+v", share, claim)
		}
	}
}
