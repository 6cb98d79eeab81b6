// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/detect"
)

const (
	fleetClaimLives = 5 * time.Second // what another node says counts for so long, unless it says that it speaks less often
	topGates        = 8
)

// Shared is what a node knows from the other nodes of its fleet about a service.
type Shared struct {
	detect.SharedReading
	Share    config.Sharing `json:"share"`
	Heard    int            `json:"heard"`    // so many nodes; Gates are the first topGates of them
	Prepared bool           `json:"prepared"` // half of the evidence suffices here
}

// Claims are what this node sees of its services, to tell others.
func (d *Detection) Claims() []detect.ServiceClaim {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// saying is what another node has said.
type saying struct {
	claims []detect.ServiceClaim
	life   time.Duration
}

// Hear takes what another node sees, for the detectors' next step. It counts for life.
func (d *Detection) Hear(node string, claims []detect.ServiceClaim, life time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.heard == nil {
		d.heard = map[string]saying{}
	}
	if _, known := d.heard[node]; known || len(d.heard) < detect.MaxGates {
		d.heard[node] = saying{claims, life}
	}
}

// hear gives the services what others have said since the last step.
func (a *Automatic) hear() {
	a.detection.mu.Lock()
	heard := a.detection.heard
	a.detection.heard = nil
	a.detection.mu.Unlock()
	for node, said := range heard {
		for _, c := range said.claims {
			if s := a.services[c.Service]; s != nil && s.shared != nil {
				s.shared.HearFor(node, c, said.life)
			}
		}
	}
}

// withFleet adds to a decision what follows from what the others see, and prepares the detector for its next step.
func (a *Automatic) withFleet(s *automatic, own detect.Decision, elapsed time.Duration) detect.Decision {
	if s.shared == nil {
		return own
	}
	seen := map[netip.Prefix]detect.Claim{}
	at := map[netip.Prefix]int{}
	for _, p := range s.detect.All() {
		if place, there := a.places[p.At]; there {
			seen[place.Prefix], at[place.Prefix] = p.Claim, p.At
		}
	}
	s.warning = s.shared.Step(s.detect.Claim(), seen, elapsed)
	places := func(prefixes []netip.Prefix) (list []int) {
		for _, p := range prefixes {
			if place, there := at[p]; there {
				list = append(list, place)
			}
		}
		return list
	}
	s.detect.Prepare(s.warning.PrepareAll, places(s.warning.Prepare))
	if a.share != config.ShareOn {
		return own
	}
	d := detect.Decision{All: own.All || s.warning.All, Prefixes: append(slices.Clone(own.Prefixes), places(s.warning.Prefixes)...)}
	slices.Sort(d.Prefixes)
	d.Prefixes = slices.Compact(d.Prefixes)
	return d
}

// wordOf are the nodes by whose word SYNs are answered.
func (s *automatic) wordOf() []string {
	r := s.shared.Read(&s.warning)
	return r.Gates[:min(topGates, len(r.Gates))]
}

// sharing is what is known from the other nodes, and what they are told. They are told nothing that this node knows from them.
func (a *Automatic) sharing(name string, s *automatic) (*Shared, detect.ServiceClaim) {
	if s.shared == nil {
		return nil, detect.ServiceClaim{}
	}
	w := &s.warning
	known := &Shared{SharedReading: s.shared.Read(w), Share: a.share, Prepared: w.PrepareAll || len(w.Prepare) > 0}
	known.Heard = len(known.Gates)
	known.Gates = known.Gates[:min(topGates, len(known.Gates))]
	claim := detect.ServiceClaim{Service: name, On: s.own.All, Claim: s.detect.Claim()}
	for _, top := range s.detect.Top(detect.MaxClaimedPrefixes) {
		if place, there := a.places[top.At]; there {
			claim.Prefixes = append(claim.Prefixes, detect.PrefixClaim{Prefix: place.Prefix, On: slices.Contains(s.own.Prefixes, top.At), Claim: top.Claim})
		}
	}
	return known, claim
}
