// SPDX-License-Identifier: Apache-2.0

// Package store keeps the bindings that count now: each hangs on a chain of
// valid authorities from a configured anchor. It answers look-ups, digests for
// the exchange with other managers, and lives on disk. It must never keep a
// record whose signature or chain it has not checked, nor grow beyond its limits.
package store

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"tidegate/internal/binding"
)

// Defaults of Options, and what is not configurable.
const (
	DefaultMaxRecords   = 1 << 18
	DefaultMaxPerIssuer = 1 << 14
	// MaxDepth is the number of authorities between an anchor and a record.
	MaxDepth = 4
	// reserve is the part of MaxRecords, as 1/reserve, that only authorities and
	// revocations of keys may use: a full store can still learn whom not to trust.
	reserve = 8
)

// Options of a store. Zero values are the defaults.
type Options struct {
	Anchors      []binding.Anchor
	MaxRecords   int
	MaxPerIssuer int // of one authority; an anchor may fill the store
	// Clock is read by look-ups. Everything else is told the time.
	Clock func() time.Time
	// Decode and Verify stand in for binding.Decode and Record.VerifySignature. Only a
	// simulation of many managers in one process sets them, to do each once.
	Decode func(raw []byte) (*binding.Record, error)
	Verify func(r *binding.Record) error
	// NoIndex leaves out the tables for look-ups. Only a simulation does.
	NoIndex bool
}

func (o *Options) setDefaults() error {
	if len(o.Anchors) == 0 {
		return errors.New("binding store: no anchor is configured, so no record could be accepted; name at least one")
	}
	if o.MaxRecords <= 0 {
		o.MaxRecords = DefaultMaxRecords
	}
	if o.MaxPerIssuer <= 0 {
		o.MaxPerIssuer = DefaultMaxPerIssuer
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Decode == nil {
		o.Decode = binding.Decode
	}
	if o.Verify == nil {
		o.Verify = (*binding.Record).VerifySignature
	}
	return nil
}

// Store is safe for use by several goroutines.
type Store struct {
	opts Options

	mu        sync.RWMutex
	anchors   map[binding.Key]*binding.Anchor
	trees     [Trees]tree
	count     int
	changes   uint64 // records put in or taken out, ever
	live      int64  // bytes of the records in a file
	perIssuer map[binding.Key]int
	auths     map[binding.Key][]authority       // valid authority records by the key they empower
	revoked   map[issuerKey]*binding.Record     // revocations of whole keys
	byKey     map[binding.Key][]*binding.Record // managers' records by their key
	index     index
	expiry    int64 // no record's time is over before this Unix second
	log       *logFile
	logErr    error
	rewriting bool              // the file is rewritten just now
	since     []*binding.Record // admitted meanwhile

	syncing sync.Mutex // Sync and Close: taken before mu
}

type issuerKey struct{ issuer, key binding.Key }

// authority is a record that empowers a key, and how many authorities stand above it.
type authority struct {
	rec   *binding.Record
	depth int
}

// New makes an empty store that lives in memory only.
func New(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{opts: o, anchors: map[binding.Key]*binding.Anchor{}, perIssuer: map[binding.Key]int{},
		auths: map[binding.Key][]authority{}, revoked: map[issuerKey]*binding.Record{},
		byKey: map[binding.Key][]*binding.Record{}, expiry: maxExpiry}
	for i := range o.Anchors {
		s.anchors[o.Anchors[i].Key] = &o.Anchors[i]
	}
	for i := range s.trees {
		s.trees[i].init()
	}
	return s, nil
}

// Len is the number of records, revocations among them.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count
}

// Admit checks a signed record and keeps it if it counts. The record is
// returned whenever it could be decoded. Errors are *binding.Error; the
// signature, the dearest check, comes last. The store keeps raw.
func (s *Store) Admit(raw []byte, now time.Time) (*binding.Record, error) {
	r, err := s.opts.Decode(raw)
	if err != nil {
		return nil, err
	}
	return r, s.AdmitRecord(r, now)
}

// AdmitRecord is Admit for a record that has been decoded.
func (s *Store) AdmitRecord(r *binding.Record, now time.Time) error {
	s.mu.Lock()
	err, before := s.check(r, now), s.changes
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.opts.Verify(r); err != nil { // without the lock: it takes a while
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != before { // another has come or gone meanwhile
		if err := s.check(r, now); err != nil {
			return err
		}
	}
	s.insert(r, now)
	s.appendLog(r)
	return nil
}

// Check tells what Admit would, except for the signature.
func (s *Store) Check(r *binding.Record, now time.Time) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.check(r, now)
}

func (s *Store) check(r *binding.Record, now time.Time) error {
	old := s.tree(r).find(r.Slot())
	if old != nil {
		if old.Digest() == r.Digest() {
			return binding.Refuse(binding.Duplicate, "known already")
		}
		if !r.Supersedes(old) {
			return binding.Refuse(binding.Stale, "serial %d is known; sign with a higher one than that", old.Serial)
		}
	}
	if err := r.CheckTime(now); err != nil {
		return err
	}
	if s.revoked[issuerKey{r.Issuer, r.Key}] != nil && r.Role != binding.WholeKey {
		return binding.Refuse(binding.Revoked, "issuer %s has revoked key %s; bind another key", r.Issuer, r.Key)
	}
	if _, err := s.support(r, now); err != nil {
		return err
	}
	if old == nil {
		return s.checkRoom(r)
	}
	return nil
}

func (s *Store) checkRoom(r *binding.Record) error {
	limit := s.opts.MaxRecords
	if !r.Governs() {
		limit -= limit / reserve
	}
	if s.count >= limit {
		return binding.Refuse(binding.Full, "the store holds %d records; raise its limit", s.count)
	}
	if s.anchors[r.Issuer] == nil && s.perIssuer[r.Issuer] >= s.opts.MaxPerIssuer {
		return binding.Refuse(binding.Full, "issuer %s has %d records, as many as one may have", r.Issuer, s.perIssuer[r.Issuer])
	}
	return nil
}

// support finds the anchor or the authority that lets r's issuer sign r, and
// returns how many authorities stand above r.
func (s *Store) support(r *binding.Record, now time.Time) (depth int, err error) {
	if a := s.anchors[r.Issuer]; a != nil {
		if p, ok := firstOutside(r.Prefixes, a.Covers); ok {
			return 0, binding.Refuse(binding.Wider, "prefix %s is outside what anchor %s may bind", p, a.Name)
		}
		return 0, nil
	}
	for _, a := range s.auths[r.Issuer] {
		if a.rec.CheckTime(now) != nil {
			continue
		}
		if p, outside := firstOutside(r.Prefixes, a.rec.Covers); outside {
			err = binding.Refuse(binding.Wider, "prefix %s is outside what issuer %s may bind", p, r.Issuer)
			continue
		}
		if a.depth+1 > MaxDepth || r.Role == binding.Authority && a.depth+2 > MaxDepth {
			err = binding.Refuse(binding.TooDeep, "more than %d authorities below the anchor", MaxDepth)
			continue
		}
		return a.depth + 1, nil
	}
	if err == nil {
		err = binding.Refuse(binding.NoAuthority, "issuer %s is neither an anchor nor a known, valid authority; its own record must come first", r.Issuer)
	}
	return 0, err
}

func firstOutside(list []netip.Prefix, covers func(netip.Prefix) bool) (netip.Prefix, bool) {
	for _, p := range list {
		if !covers(p) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func (s *Store) tree(r *binding.Record) *tree { return &s.trees[TreeOf(r)] }

// insert puts a checked record in its place and does what follows from it.
func (s *Store) insert(r *binding.Record, now time.Time) {
	s.changes++
	old := s.tree(r).put(r)
	s.live += frameLen(r)
	if old == nil {
		s.count++
		s.perIssuer[r.Issuer]++
	} else {
		s.live -= frameLen(old)
		s.unlink(old)
	}
	s.link(r, now)
	s.expiry = min(s.expiry, r.NotAfter)
	if r.Governs() && (r.Revoked || old != nil && !asGood(r, old)) {
		s.prune(now) // records hang on what was, or on the key that is revoked now
	}
}

// asGood tells whether whatever the authority old allowed, its successor r does.
func asGood(r, old *binding.Record) bool {
	_, narrower := firstOutside(old.Prefixes, r.Covers)
	return !narrower && r.NotAfter >= old.NotAfter
}

func frameLen(r *binding.Record) int64 { return int64(logHeadLen + len(r.Raw())) }

// link enters a record into the maps that derive from the trees.
func (s *Store) link(r *binding.Record, now time.Time) {
	switch {
	case r.Role == binding.WholeKey:
		s.revoked[issuerKey{r.Issuer, r.Key}] = r
	case r.Revoked:
	case r.Role == binding.Authority:
		if depth, err := s.support(r, now); err == nil {
			s.auths[r.Key] = append(s.auths[r.Key], authority{r, depth})
		}
	case !s.opts.NoIndex:
		s.byKey[r.Key] = append(s.byKey[r.Key], r)
		s.index.add(r)
	}
}

func (s *Store) unlink(r *binding.Record) {
	switch {
	case r.Role == binding.WholeKey:
		delete(s.revoked, issuerKey{r.Issuer, r.Key})
	case r.Revoked:
	case r.Role == binding.Authority:
		removeFrom(s.auths, r.Key, func(a authority) bool { return a.rec == r })
	case !s.opts.NoIndex:
		removeFrom(s.byKey, r.Key, func(x *binding.Record) bool { return x == r })
		s.index.remove(r)
	}
}

func removeFrom[T any](m map[binding.Key][]T, key binding.Key, is func(T) bool) {
	var kept []T
	for _, v := range m[key] {
		if !is(v) {
			kept = append(kept, v)
		}
	}
	if m[key] = kept; kept == nil {
		delete(m, key)
	}
}

// drop takes a record out altogether.
func (s *Store) drop(r *binding.Record) {
	s.changes++
	s.tree(r).remove(r.Slot())
	s.unlink(r)
	s.live -= frameLen(r)
	s.count--
	if s.perIssuer[r.Issuer]--; s.perIssuer[r.Issuer] == 0 {
		delete(s.perIssuer, r.Issuer)
	}
}
