// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"tidegate/internal/upstream"
)

// Store is a file with the requested filters, so that a restarted manager goes on watching them
// and can remove them. It is up to a second behind (see Manager.Keep): what is lost in a crash expires by itself.
type Store struct{ db *bbolt.DB }

// kept is an Entry in the file.
type kept struct {
	Request
	State    State             `json:"state"`
	Endpoint upstream.Endpoint `json:"endpoint"`
	Proven   bool              `json:"proven"`
	Since    time.Time         `json:"since"`
	Borders  []keptSite        `json:"borders,omitempty"`

	gone bool
}

// keptSite is a Site in the file.
type keptSite struct {
	State    State             `json:"state"`
	Code     string            `json:"code,omitempty"`
	Endpoint upstream.Endpoint `json:"endpoint"`
	Proven   bool              `json:"proven"`
}

// keptBorders are the sites of a filter of several border managers.
func (e *Entry) keptBorders() (list []keptSite) {
	for i := range e.Borders {
		at := &e.Borders[i]
		list = append(list, keptSite{at.State, at.Code, *at.endpoint, at.Proven})
	}
	return list
}

// entry is the filter as it was when it was kept.
func (k *kept) entry(now time.Time) *Entry {
	e := &Entry{Request: k.Request, Since: InstantOf(k.Since), LastHit: InstantOf(now)}
	if len(k.Borders) == 0 {
		bm := k.Endpoint // k is one of a list, which should not stay for it
		e.Site = siteAt(e, &bm)
		e.State, e.Proven = k.State, k.Proven
		return e
	}
	e.BM, e.Borders = &noAddr, make([]Site, len(k.Borders))
	for i, b := range k.Borders {
		e.Borders[i] = siteAt(e, &b.Endpoint)
		e.Borders[i].State, e.Borders[i].Code, e.Borders[i].Proven = b.State, b.Code, b.Proven
	}
	_ = e.sum()
	return e
}

var bucket = []byte("filters")

// OpenStore opens the file, or creates it. An unreadable one is moved aside, to PATH.broken, and aside is the
// reason: a manager without its old list is better than none.
func OpenStore(path string) (s *Store, list []kept, aside, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, nil, err
	}
	s, list, aside = openStore(path)
	if aside == nil {
		return s, list, nil, nil
	}
	if errors.Is(aside, fs.ErrPermission) || errors.Is(aside, bolterrors.ErrTimeout) {
		return nil, nil, nil, fmt.Errorf("filters_file: %w", aside)
	}
	if err := os.Rename(path, path+".broken"); err != nil {
		return nil, nil, nil, fmt.Errorf("filters_file: %w", err)
	}
	s, _, err = openStore(path)
	return s, nil, fmt.Errorf("moved to %s.broken: %w", path, aside), err
}

// openStore reads everything: missing pages of a mapped file cause faults, which become errors.
func openStore(path string) (s *Store, list []kept, err error) {
	if err := complete(path); err != nil {
		return nil, nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var db *bbolt.DB
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s is damaged: %v", path, r)
		}
		if err != nil && db != nil {
			_ = db.Close()
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(_, v []byte) error {
			var k kept
			if err := json.Unmarshal(v, &k); err != nil {
				return err
			}
			list = append(list, k)
			return nil
		})
	})
	return &Store{db}, list, err
}

// Where bbolt's two meta pages, the first of the file, say how long the file must be: a page's header has 16 bytes,
// then come magic, version and page size, of 32 bits each, and, after flags, root bucket and freelist, the number of pages.
const (
	metaMagic    = 0xED0CDAED
	metaMagicAt  = 16
	metaPageAt   = 24
	metaPagesAt  = 56
	metaMinBytes = 64
)

// complete refuses a truncated file: bbolt maps it and would crash this process.
func complete(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	page := int64(os.Getpagesize())
	for at := range int64(2) {
		var meta [metaMinBytes]byte
		if _, err := f.ReadAt(meta[:], at*page); err != nil {
			return fmt.Errorf("%s is not a list of filters, or has lost its end", path)
		}
		word := binary.NativeEndian
		if word.Uint32(meta[metaMagicAt:]) != metaMagic {
			return fmt.Errorf("%s is not a list of filters", path)
		}
		if size := int64(word.Uint32(meta[metaPageAt:])); size != page {
			return fmt.Errorf("%s was written with pages of %d bytes, and this machine's have %d", path, size, page)
		}
		if pages := word.Uint64(meta[metaPagesAt:]); pages > uint64(info.Size()/page) {
			return fmt.Errorf("%s has lost its end: %d bytes of %d pages", path, info.Size(), pages)
		}
	}
	return nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// save writes changes in one transaction.
func (s *Store) save(changes []kept) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for i := range changes {
			c := &changes[i]
			id := keyOf(c.Src, c.Dst)
			key := append(append(id.src[:], id.dst[:]...), id.srcBits, id.dstBits)
			if c.Src.Addr().Is4() {
				key = append(key, 4)
			}
			if c.gone {
				if err := b.Delete(key); err != nil {
					return err
				}
				continue
			}
			v, err := json.Marshal(c)
			if err != nil {
				return err
			}
			if err := b.Put(key, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// changed marks an entry for Keep; m.mu is held.
func (m *Manager) changed(e *Entry) {
	if m.opt.Store != nil && !e.dirty {
		e.dirty = true
		m.dirty = append(m.dirty, e)
	}
}

// Keep writes the changes since the last call to the store. Failed writes are tried again.
func (m *Manager) Keep() error {
	m.mu.Lock()
	list := m.dirty
	m.dirty = nil
	changes := make([]kept, len(list))
	for i, e := range list {
		e.dirty = false
		changes[i] = kept{Request: e.Request, State: e.State, Proven: e.Proven, Since: e.Since.Time(), Borders: e.keptBorders(),
			gone: e.State == Refused || m.entries.get(keyOf(e.Src, e.Dst)) == nil}
		if e.endpoint != nil { // several have one each
			changes[i].Endpoint = *e.endpoint
		}
	}
	m.mu.Unlock()
	if len(changes) == 0 {
		return nil
	}
	err := m.opt.Store.save(changes)
	if err != nil {
		m.mu.Lock()
		for _, e := range list {
			m.changed(e)
		}
		m.mu.Unlock()
	}
	return err
}

// Restore takes over the filters of an earlier process. Unanswered ones are requested again; those that the
// configuration no longer allows are removed; expired ones are dropped. It returns how many are left.
func (m *Manager) Restore(list []kept, now time.Time) (restored int) {
	groups := grouped{}
	var back []*Entry
	m.mu.Lock()
	policy := m.policy.Load()
	for i := range list {
		k := &list[i]
		e := k.entry(now)
		if now.Sub(k.Since) > k.Expires || k.State == Refused {
			m.changed(e) // not in the list: Keep removes it
			continue
		}
		if policy.allows(&k.Request) != nil {
			m.changed(e)
			back = append(back, e)
			continue
		}
		m.entries.put(keyOf(k.Src, k.Dst), e)
		m.count(e, 1)
		restored++
		for at := range e.sites {
			if at.State == Asked {
				g := groups.of(groupKey{at.endpoint.Addr, k.Request.kind(), k.Src.Addr().Is4()}, at)
				g.sites = append(g.sites, at)
			}
		}
	}
	m.mu.Unlock()
	for k, g := range groups {
		m.send(k.kind, g, !k.v4, func(part []*Site, o Outcome) { m.installed(part, o, nil) })
	}
	m.removeAll(back, now, nil)
	return restored
}
