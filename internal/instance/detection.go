// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"tidegate/internal/detect"
)

// DetectorState is the current state of one service's detector.
type DetectorState struct {
	Service  string          `json:"service"`
	On       bool            `json:"on"`
	All      bool            `json:"all"`
	Detector detect.Reading  `json:"detector"`
	Top      []PrefixReading `json:"top"`              // the prefixes with most SYNs that are not completed
	Attack   *Attack         `json:"attack,omitempty"` // while it is on
	Always   string          `json:"always,omitempty"` // why SYNs are always answered nevertheless
	Fleet    *Shared         `json:"fleet,omitempty"`  // what the other nodes see; absent: nothing is shared
}

// PrefixReading is the detector's reading of one prefix.
type PrefixReading struct {
	Prefix netip.Prefix `json:"prefix"`
	detect.Reading
}

// Detection is where a daemon's detectors report to the rest of its process. The zero value is ready to use.
type Detection struct {
	OnAttack func(Attack) // nil: none

	mu    sync.Mutex
	list  []DetectorState
	own   []detect.ServiceClaim // what is seen here
	heard map[string]saying     // what others say, by node, since the last step
}

// DetectionOf is one that has these states, for tests of what is made of them.
func DetectionOf(list ...DetectorState) *Detection { return &Detection{list: list} }

// States are those of the services in mode auto.
func (d *Detection) States() []DetectorState {
	if d == nil {
		return []DetectorState{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]DetectorState{}, d.list...)
}

// publish makes the state visible in this process.
func (a *Automatic) publish() {
	list, own := make([]DetectorState, 0, len(a.services)), []detect.ServiceClaim(nil)
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		s := a.services[name]
		d := DetectorState{Service: name, On: s.decision.On() || s.always != "", All: s.decision.All || s.always != "", Detector: s.detect.Read(), Always: s.always, Top: []PrefixReading{}}
		for _, top := range s.detect.Top(topPrefixes) {
			if place, there := a.places[top.At]; there {
				d.Top = append(d.Top, PrefixReading{place.Prefix, top.Reading})
			}
		}
		if s.attack.Service != "" {
			attack := s.attack
			d.Attack = &attack
		}
		var claim detect.ServiceClaim
		if d.Fleet, claim = a.sharing(name, s); !claim.Idle() {
			own = append(own, claim)
		}
		list = append(list, d)
	}
	a.detection.mu.Lock()
	a.detection.list, a.detection.own = list, own
	a.detection.mu.Unlock()
}
