// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"tidegate/internal/binding"
)

// Recovery tells what was found on disk.
type Recovery struct {
	Loaded   int   // records that count
	Refused  int   // whole records that count no longer (expired, superseded, revoked)
	BytesCut int64 // damaged end of the file, gone
}

// Open makes a store that lives in dir. Every record on disk is checked again,
// signature and chain: the disk is trusted no more than a neighbour.
func Open(dir string, o Options, now time.Time) (*Store, Recovery, error) {
	var rec Recovery
	s, err := New(o)
	if err != nil {
		return nil, rec, err
	}
	var raws [][]byte
	log, cut, err := openLog(dir, func(raw []byte) { raws = append(raws, raw) })
	if err != nil {
		return nil, rec, err
	}
	rec.BytesCut = cut
	s.load(verifyAll(raws, &s.opts), now)
	rec.Loaded, rec.Refused = s.count, len(raws)-s.count
	s.log = log
	if err := s.Sync(); err != nil { // rewrites a wasteful file
		log.close()
		return nil, rec, err
	}
	return s, rec, nil
}

// verifyAll decodes records and checks their signatures on all processors.
func verifyAll(raws [][]byte, o *Options) []*binding.Record {
	list := make([]*binding.Record, len(raws))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := w; i < len(raws); i += workers {
				// A copy: the record must not hold the whole file in memory.
				r, err := o.Decode(append([]byte(nil), raws[i]...))
				if err == nil && o.Verify(r) == nil {
					list[i] = r
				}
			}
		}()
	}
	wg.Wait()
	return list
}

// load admits records in the order of the file, and again those whose authority
// came later, until none is added.
func (s *Store) load(list []*binding.Record, now time.Time) {
	for {
		var waiting []*binding.Record
		for _, r := range list {
			if r == nil {
				continue
			}
			switch err := s.check(r, now); binding.CodeOf(err) {
			case binding.OK:
				s.insert(r, now)
			case binding.NoAuthority, binding.Wider:
				waiting = append(waiting, r)
			}
		}
		if len(waiting) == len(list) || len(waiting) == 0 {
			return
		}
		list = waiting
	}
}

func (s *Store) appendLog(r *binding.Record) {
	if s.log == nil {
		return
	}
	if err := s.log.append(r.Raw()); err != nil {
		s.logErr = fmt.Errorf("binding store: %w; the record counts, but is not on disk", err)
	}
	if s.rewriting {
		s.since = append(s.since, r)
	}
}

// Sync brings to disk what Admit has written, and rewrites the file if much of it
// is superseded. Call it every second or so. What was admitted since the last
// Sync survives the process's death, but not the machine's. It returns the
// first error of writing since the last call. Look-ups go on meanwhile.
func (s *Store) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	err := s.logErr
	s.logErr = nil
	if s.log == nil || err != nil {
		s.mu.Unlock()
		return err
	}
	if s.wasteful() {
		list := s.list()
		s.rewriting = true
		s.mu.Unlock()
		return s.compact(list)
	}
	f, pending := s.log.f, s.log.pending
	s.log.pending = false
	s.mu.Unlock()
	if !pending {
		return nil
	}
	return f.Sync()
}

// wasteful tells whether the file is worth rewriting.
func (s *Store) wasteful() bool {
	if s.log.size < compactBytes {
		return false
	}
	return s.log.size-s.live > s.log.size/2
}

// compact writes a new file of list without the lock, and then what has come since.
func (s *Store) compact(list []*binding.Record) error {
	f, size, err := s.log.writeTemp(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.since
	s.since, s.rewriting = nil, false
	if err != nil {
		return err
	}
	return s.log.install(f, size, since)
}

// Close syncs and closes the file. The store must not be used afterwards.
func (s *Store) Close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return nil
	}
	return s.log.close()
}
