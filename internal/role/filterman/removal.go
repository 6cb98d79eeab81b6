// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/ifp"
)

// A filter is removed at every border manager that was asked for it.

// ErrUnknown: this manager has not requested the filter.
var ErrUnknown = errors.New("no such filter; `tidegate filter list` shows those that are")

// Remove removes a filter; done as for Add.
func (m *Manager) Remove(src, dst netip.Prefix, done func(Entry, error)) error {
	return m.remove(nil, src, dst, done)
}

// remove removes a filter for a detector, which may remove only its own.
func (m *Manager) remove(by *detector, src, dst netip.Prefix, done func(Entry, error)) error {
	m.mu.Lock()
	e := m.entries.get(keyOf(src.Masked(), dst.Masked()))
	m.mu.Unlock()
	if e == nil || by != nil && e.Detector != by.owner() {
		return ErrUnknown
	}
	m.removeAll([]*Entry{e}, time.Now(), done)
	return nil
}

// removeAll removes filters, each from all its border managers. Which of the two filters a conditional request
// installed is not known, so both are removed.
func (m *Manager) removeAll(list []*Entry, now time.Time, done func(Entry, error)) {
	for _, e := range list {
		filters := []ifp.Filter{e.filter()}
		if e.Reflected {
			filters = e.variants()
		}
		r := &removal{e: e, left: e.siteCount(), expired: e.Expires > 0 && now.Sub(e.Since.Time()) > e.Expires, done: done}
		for at := range e.sites {
			m.opt.Engine.Do(Job{Kind: ifp.Remove, Filters: filters, BM: *at.endpoint, Done: func(o Outcome) { m.removed(r, at, o) }})
		}
	}
}

// removal of one filter; with the manager's mu.
type removal struct {
	e    *Entry
	left int // border managers that have not answered
	err  error
	done func(Entry, error)

	expired bool // it is gone whatever they answer
}

// removed records a border manager's answer. The answer of one that has refused the filter anyway does not matter.
func (m *Manager) removed(r *removal, at *Site, o Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := o.Err
	gone := at.State == Refused || at.State == Gone
	for _, c := range o.Codes {
		gone = gone || c == ifp.OK || c == ifp.NotFound
	}
	if err == nil && !gone {
		err = fmt.Errorf("the border manager says %v", o.Codes[0])
	}
	if gone {
		at.State = Gone
	} else if r.err == nil {
		r.err = err
	}
	if r.left--; r.left > 0 {
		return
	}
	if r.err == nil || r.expired {
		m.forget(r.e)
	} else if r.e.Borders != nil {
		_ = r.e.sum()
		m.changed(r.e)
	}
	if r.done != nil {
		copied := r.e.copied()
		go r.done(copied, r.err)
	}
}

// variants are the two filters that a conditional request may have become.
func (e *Entry) variants() []ifp.Filter {
	f := e.filter()
	a, b := f, f
	a.Action, a.Direction = ifp.BlockTS0, ifp.ToCustomer
	b.Src, b.Dst, b.Action, b.Direction = f.Dst, f.Src, ifp.ClearTS, ifp.FromCustomer
	return []ifp.Filter{a, b}
}
