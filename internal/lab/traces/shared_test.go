// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/detect"
)

// gate is one of a fleet that a trace is spread over.
type gate struct {
	alone  *detect.Service
	shared *detect.Shared
}

// spread plays a trace to so many gates, each SYN and handshake at one of them in turn, which tell one another each second; a liar, if there is one, says all the time that it is
// attacked. It returns when the sum, and when a gate's own detector, was on first, -1 if never, and whether either was without an attack.
func spread(t Trace, gates int, lies bool) (sum, alone time.Duration, wrong string) {
	fleet := make([]gate, gates)
	for i := range fleet {
		fleet[i] = gate{detect.NewService(detect.Default()), detect.NewShared(detect.Default(), 3*time.Second, 2)}
	}
	address := func(at int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(at)}), 32)
	}
	turn := 0
	share := func(n uint64, i int) uint64 {
		return (n + uint64((i+turn)%gates)) / uint64(gates)
	}
	sum, alone = -1, -1
	now := time.Duration(0)
	for step, row := range t.Counts {
		now += t.Period
		attacked := t.Begins >= 0 && now > t.Begins
		turn++
		for i := range fleet {
			g := &fleet[i]
			total, prefixes, claims := detect.Counts{}, map[int]detect.Counts{}, map[netip.Prefix]detect.Claim{}
			for at, c := range row {
				mine := detect.Counts{SYNs: share(c.SYNs, i+at), Done: share(c.Done, i+at)}
				total.SYNs, total.Done = total.SYNs+mine.SYNs, total.Done+mine.Done
				prefixes[at] = mine
			}
			on := g.alone.Step(total, prefixes, t.Period).On()
			top := g.alone.Top(detect.MaxClaimedPrefixes)
			for _, p := range top {
				claims[address(p.At)] = p.Claim
			}
			w := g.shared.Step(g.alone.Claim(), claims, t.Period)
			if lies {
				g.shared.Hear("liar", detect.ServiceClaim{On: true, Claim: detect.Claim{Missing: 1e6}})
				g.alone.Prepare(w.PrepareAll, nil)
			}
			if step%int(time.Second/t.Period) == 0 {
				said := detect.ServiceClaim{Claim: g.alone.Claim()}
				for _, p := range top {
					said.Prefixes = append(said.Prefixes, detect.PrefixClaim{Prefix: address(p.At), Claim: p.Claim})
				}
				for j := range fleet {
					if j != i {
						fleet[j].shared.Hear(fmt.Sprint(i), said)
					}
				}
			}
			switch whole := w.All || len(w.Prefixes) > 0; {
			case !attacked && (whole || on):
				return sum, alone, fmt.Sprintf("%s at %v: sum %v (%+v), gate %d alone %v (%+v)", t.Name, now, whole, g.shared.Read(&w), i, on, g.alone.Read())
			case whole && sum < 0:
				sum = now - t.Begins
			}
			if on && alone < 0 {
				alone = now - t.Begins
			}
		}
		if attacked && now > t.Begins+time.Minute {
			return sum, alone, ""
		}
	}
	return sum, alone, ""
}

// Spread over ten gates, each trace's attack is seen in the sum, in no more than two seconds above the detector's bound, and no other is; a gate that says all the time that it is attacked, at a
// million SYNs a second, switches nobody on.
func TestSharedReplay(t *testing.T) {
	for _, trace := range All(1) {
		for _, lies := range []bool{false, true} {
			sum, alone, wrong := spread(trace, 10, lies)
			t.Logf("%-22s lies %v: sum after %v, a gate alone after %v", trace.Name, lies, sum, alone)
			if wrong != "" {
				t.Errorf("a false alarm, lies %v: %s", lies, wrong)
			}
			if within := trace.Within + 2*time.Second; trace.Begins >= 0 && (sum < 0 || sum > within) {
				t.Errorf("%s, lies %v: seen in the sum after %v, want within %v", trace.Name, lies, sum, within)
			}
		}
	}
}
