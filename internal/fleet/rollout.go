// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rest is what holds for the nodes that are no canaries while a roll-out is not finished. It stands in the value of the canaries, so that each
// node can decide alone, also one that was away and whether or not the operator's program still runs.
type Rest struct {
	Revision uint64  `json:"revision"`
	Desired  Desired `json:"desired"`
}

// ReportEvery is the longest time between two reports of a node; whoever watches a node for less may see nothing of it.
const ReportEvery = reportEvery

// forNode is what a stored value means for a node: the revision and its state; nothing if none holds for it yet.
func (s *stored) forNode(name string, number uint64) (uint64, *Desired) {
	switch {
	case len(s.Only) == 0 || slices.Contains(s.Only, name):
		return number, &s.Desired
	case s.Rest != nil:
		return s.Rest.Revision, &s.Rest.Desired
	}
	return 0, nil
}

// Unfinished says how a roll-out that has reached only its canaries is ended; nothing if there is none.
func (r *Revision) Unfinished() string {
	if len(r.Only) == 0 {
		return ""
	}
	return fmt.Sprintf("roll-out of revision %d has reached only its canaries (%s), since %s, by %s: `tidegate fleet apply --resume` completes it, `tidegate fleet rollback` takes it back",
		r.Number, strings.Join(r.Only, ", "), r.At.UTC().Format(time.RFC3339), r.By)
}

// origin is the revision whose state this one has.
func (r *Revision) origin() uint64 {
	if r.Back != 0 {
		return r.Back
	}
	return r.Number
}

// LastForAll is the newest revision, up to a number, that nodes could apply and that was for all of them, under the number where its state stood
// first. The newest of all is not always that: it may be garbage, or for canaries. Number 0: the history is empty.
func LastForAll(all []Revision, upTo uint64) (Revision, error) {
	if len(all) == 0 {
		return Revision{}, nil
	}
	for _, r := range slices.Backward(all) {
		if r.Number <= upTo && r.Error == "" && len(r.Only) == 0 {
			return r, nil
		}
	}
	return Revision{}, errors.New("no stored revision is both valid and for all nodes")
}

// Before is where a rollback leads: the revision of that number, or with 0 the one before what is in force. A second rollback goes on from where the
// first one led, and so never returns to what was rolled back.
func Before(all []Revision, to uint64) (Revision, error) {
	if len(all) == 0 {
		return Revision{}, errors.New("there is no revision yet")
	}
	newest := all[len(all)-1]
	if to != 0 {
		for _, r := range all {
			if r.Number == to && r.Error == "" {
				return under(r), nil
			}
		}
		return Revision{}, fmt.Errorf("no valid revision %d; `tidegate fleet history` lists them", to)
	}
	limit := newest.origin()
	if len(newest.Only) > 0 { // the rest of the nodes are where it leads
		limit = newest.Number
		if newest.Rest != nil {
			return Revision{Number: newest.Rest.Revision, Desired: newest.Rest.Desired}, nil
		}
	}
	r, err := LastForAll(all, limit-1)
	if err != nil {
		return Revision{}, errors.New("there is no earlier revision that is valid and was for all nodes; `tidegate fleet history` lists what there is")
	}
	return under(r), nil
}

// under gives a revision the number where its state stood first.
func under(r Revision) Revision {
	r.Number = r.origin()
	return r
}
