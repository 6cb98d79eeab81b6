// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math"
	"time"

	"tidegate/internal/binding"
)

const maxExpiry = math.MaxInt64

// Expire drops what is out of date, and what hung on it. It returns how many
// records that were. Call it every second or so; it costs nothing while
// nothing expires.
func (s *Store) Expire(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Unix() <= s.expiry+int64(binding.Skew/time.Second) {
		return 0
	}
	return s.prune(now)
}

// prune drops every record that no longer counts. Authorities are found again
// from the anchors downwards, so that two that sign each other do not hold each
// other up. One pass over the store.
func (s *Store) prune(now time.Time) int {
	before := s.count
	s.changes++ // of authorities, even if nothing is dropped
	s.dropWhere(0, func(r *binding.Record) bool { return r.CheckTime(now) != nil })
	s.rebuildAuthorities(now)
	s.expiry = maxExpiry
	for t := range s.trees {
		s.dropWhere(t, func(r *binding.Record) bool { return !s.counts(r, now) })
		s.trees[t].each(func(r *binding.Record) { s.expiry = min(s.expiry, r.NotAfter) })
	}
	return before - s.count
}

func (s *Store) counts(r *binding.Record, now time.Time) bool {
	if r.CheckTime(now) != nil || s.revoked[issuerKey{r.Issuer, r.Key}] != nil && r.Role != binding.WholeKey {
		return false
	}
	if _, err := s.support(r, now); err != nil {
		return false
	}
	return true
}

func (s *Store) dropWhere(t int, gone func(*binding.Record) bool) {
	var list []*binding.Record
	s.trees[t].each(func(r *binding.Record) {
		if gone(r) {
			list = append(list, r)
		}
	})
	for _, r := range list {
		s.drop(r)
	}
}

// rebuildAuthorities computes auths level by level: those that anchors sign, those
// that these sign, and so on.
func (s *Store) rebuildAuthorities(now time.Time) {
	var waiting []*binding.Record
	s.trees[0].each(func(r *binding.Record) {
		if r.Role == binding.Authority && !r.Revoked && s.revoked[issuerKey{r.Issuer, r.Key}] == nil {
			waiting = append(waiting, r)
		}
	})
	clear(s.auths)
	for level := 0; level < MaxDepth && len(waiting) > 0; level++ {
		var found []authority
		var rest []*binding.Record
		for _, r := range waiting {
			if depth, err := s.support(r, now); err == nil {
				found = append(found, authority{r, depth})
			} else {
				rest = append(rest, r)
			}
		}
		for _, a := range found {
			s.auths[a.rec.Key] = append(s.auths[a.rec.Key], a)
		}
		if waiting = rest; len(found) == 0 {
			return
		}
	}
}
