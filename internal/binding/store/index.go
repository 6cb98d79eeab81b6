// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"tidegate/internal/binding"
)

// index finds managers by longest prefix. Several may hold the same prefix.
type index struct {
	border, filter bart.Table[[]*binding.Record]
}

func (x *index) table(r *binding.Record) *bart.Table[[]*binding.Record] {
	if r.Role == binding.BorderManager {
		return &x.border
	}
	return &x.filter
}

func (x *index) add(r *binding.Record) {
	for _, p := range r.Prefixes {
		x.table(r).Modify(p, func(list []*binding.Record, _ bool) ([]*binding.Record, bool) {
			list = append(slices.Clone(list), r)
			slices.SortFunc(list, better)
			return list, false
		})
	}
}

func (x *index) remove(r *binding.Record) {
	for _, p := range r.Prefixes {
		x.table(r).Modify(p, func(list []*binding.Record, _ bool) ([]*binding.Record, bool) {
			var kept []*binding.Record
			for _, other := range list {
				if other != r {
					kept = append(kept, other)
				}
			}
			return kept, len(kept) == 0
		})
	}
}

// better orders the managers of one prefix: the youngest record first, then by slot,
// so that everybody chooses the same.
func better(a, b *binding.Record) int {
	if a.NotBefore != b.NotBefore {
		if a.NotBefore > b.NotBefore {
			return -1
		}
		return 1
	}
	return compareSlot(a, b.Slot())
}

// BorderManagerFor returns the border manager of the longest prefix that holds
// addr, or nil: nobody can be asked to filter that source.
func (s *Store) BorderManagerFor(addr netip.Addr) *binding.Record {
	addr = addr.Unmap()
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	list, _ := s.index.border.Lookup(addr)
	if len(list) > 0 && s.countsNow(list[0], now) {
		return list[0]
	}
	if len(list) == 0 {
		return nil
	}
	// The first choice has run out since the last Expire.
	for _, list := range s.index.border.Supernets(netip.PrefixFrom(addr, addr.BitLen())) {
		for _, r := range list {
			if s.countsNow(r, now) {
				return r
			}
		}
	}
	return nil
}

// BorderManagersFor visits the border managers of all addresses of p, until visit returns false: the one of the
// longest prefix that covers all of p, and those of longer prefixes within p. One may come more than once. visit must not call the store.
func (s *Store) BorderManagersFor(p netip.Prefix, visit func(*binding.Record) bool) {
	p = p.Masked()
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	first := func(list []*binding.Record) *binding.Record {
		for _, r := range list {
			if s.countsNow(r, now) {
				return r
			}
		}
		return nil
	}
	for _, list := range s.index.border.Supernets(p) { // the longest first
		if r := first(list); r != nil {
			if !visit(r) {
				return
			}
			break
		}
	}
	for _, list := range s.index.border.Subnets(p) {
		if r := first(list); r != nil && !visit(r) {
			return
		}
	}
}

// FilterManagersFor returns the filter managers that may ask for filters on
// traffic to all of p, those with the longest prefix first.
func (s *Store) FilterManagersFor(p netip.Prefix) []*binding.Record {
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*binding.Record
	for _, list := range s.index.filter.Supernets(p.Masked()) {
		for _, r := range list {
			if s.countsNow(r, now) {
				found = append(found, r)
			}
		}
	}
	return found
}

// MayRequest tells whether the holder of key is a filter manager for all of p.
func (s *Store) MayRequest(key binding.Key, p netip.Prefix) bool {
	p = p.Masked()
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.byKey[key] {
		if r.Role == binding.FilterManager && r.Covers(p) && s.countsNow(r, now) {
			return true
		}
	}
	return false
}

// MayRequestFrom tells whether a filter manager for all of p has the address from
// among its endpoints: the check of a border manager that knows only where a
// request came from (and has proven it by a nonce).
func (s *Store) MayRequestFrom(from netip.Addr, p netip.Prefix) bool {
	return s.RequesterFrom(from, p) != nil
}

// RequesterFrom returns the record by which MayRequestFrom says yes, or nil.
func (s *Store) RequesterFrom(from netip.Addr, p netip.Prefix) *binding.Record {
	from = from.Unmap()
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, list := range s.index.filter.Supernets(p.Masked()) {
		for _, r := range list {
			for _, e := range r.Endpoints {
				if e.Service == binding.ServiceIFP && e.Addr.Addr() == from && s.countsNow(r, now) {
					return r
				}
			}
		}
	}
	return nil
}

// Managers returns the valid manager records of a key; none: the key is no manager's.
func (s *Store) Managers(key binding.Key) []*binding.Record {
	now := s.opts.Clock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*binding.Record
	for _, r := range s.byKey[key] {
		if s.countsNow(r, now) {
			found = append(found, r)
		}
	}
	return found
}

// countsNow tells whether a record of the index, and some authority above it, is
// still in its time.
func (s *Store) countsNow(r *binding.Record, now time.Time) bool {
	if now.Unix() <= s.expiry {
		return true // nothing in the store has run out
	}
	return s.counts(r, now)
}
