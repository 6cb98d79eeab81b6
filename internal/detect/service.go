// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"slices"
	"time"
)

// Service decides for one service, and within it for each destination prefix that is hit. Prefixes are known by the
// place where the packet path counts them: two may share one, and then share the decision.
type Service struct {
	p        Params
	whole    *Detector
	prefixes map[int]*Detector
	all      bool // all SYNs are answered, whatever their destination
}

// NewService returns a Service without history.
func NewService(p Params) *Service {
	return &Service{p: p, whole: New(p), prefixes: map[int]*Detector{}}
}

// SetParams replaces the numbers of all detectors; what they have seen stays.
func (s *Service) SetParams(p Params) {
	s.p = p
	s.whole.SetParams(p)
	for _, of := range s.prefixes {
		of.SetParams(p)
	}
}

// Prepare says what others are attacked at: all of the service, or these prefixes. Half of the evidence suffices there (Detector.Prepare).
func (s *Service) Prepare(all bool, prefixes []int) {
	s.whole.Prepare(all)
	for at, of := range s.prefixes {
		of.Prepare(all || slices.Contains(prefixes, at))
	}
}

// Decision is what is to be answered.
type Decision struct {
	All      bool
	Prefixes []int // in addition; sorted
}

// On reports whether anything is answered.
func (d Decision) On() bool { return d.All || len(d.Prefixes) > 0 }

// Equal reports whether both are the same.
func (d Decision) Equal(o Decision) bool {
	return d.All == o.All && slices.Equal(d.Prefixes, o.Prefixes)
}

// explains is the share of uncompleted SYNs to prefixes answered anyway from which on these prefixes are enough.
const explains = 0.75

// Step takes the counts of a period: of the service, and of its prefixes.
func (s *Service) Step(total Counts, prefixes map[int]Counts, elapsed time.Duration) Decision {
	for at := range prefixes {
		if s.prefixes[at] == nil {
			s.prefixes[at] = New(s.p)
		}
	}
	var d Decision
	explained := 0.0
	for at, of := range s.prefixes {
		if of.Step(prefixes[at], elapsed) {
			d.Prefixes = append(d.Prefixes, at)
			explained += of.missing
		}
		if of.idle() {
			delete(s.prefixes, at)
		}
	}
	slices.Sort(d.Prefixes)
	switch whole := s.whole.Step(total, elapsed); {
	case !whole:
		s.all = false
	case s.whole.alarming() && explained < explains*s.whole.missing:
		s.all = true
	}
	d.All = s.all
	return d
}

// Resume starts with the decision that another process has left.
func (s *Service) Resume(d Decision) {
	if s.all = d.All; d.All {
		s.whole.Resume(true)
	}
	for _, at := range d.Prefixes {
		s.prefixes[at] = New(s.p)
		s.prefixes[at].Resume(true)
	}
}

// Read returns what is seen of the service.
func (s *Service) Read() Reading { return s.whole.Read() }

// Claim is what is seen of the service and of a prefix, as a gate tells the others of its fleet.
func (s *Service) Claim() Claim { return s.whole.Claim() }

// Prefix is a destination prefix of SYNs.
type Prefix struct {
	At    int
	Claim Claim
	Reading
}

// Top returns the prefixes with the most uncompleted SYNs, at most `most` of them.
func (s *Service) Top(most int) []Prefix {
	list := s.All()
	return list[:min(most, len(list))]
}

// All returns all prefixes, those with the most uncompleted SYNs first.
func (s *Service) All() []Prefix {
	list := make([]Prefix, 0, len(s.prefixes))
	for at, of := range s.prefixes {
		list = append(list, Prefix{At: at, Claim: of.Claim(), Reading: of.Read()})
	}
	slices.SortFunc(list, func(a, b Prefix) int { return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(a.At, b.At)) })
	return list
}
