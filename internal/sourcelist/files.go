// SPDX-License-Identifier: Apache-2.0

package sourcelist

import (
	"fmt"
	"net/netip"
	"os"
	"time"
)

// List is a file of prefixes.
type List struct {
	Path     string
	Verdict  Verdict
	Optional bool // a missing file is an empty one
}

// Files are the lists of an instance, in the order of their numbers (Entry.Source).
type Files []List

// Read reads them all.
func (f Files) Read() (all []Entry, err error) {
	for n, list := range f {
		all, err = ReadFile(list.Path, list.Verdict, uint8(n), MaxEntries-len(all), all)
		switch {
		case os.IsNotExist(err) && list.Optional:
		case os.IsNotExist(err):
			return nil, fmt.Errorf("%s list: %w; create it (it may be empty), or remove `%s_list`", list.Verdict, err, list.Verdict)
		case err != nil:
			return nil, fmt.Errorf("%s list: %w", list.Verdict, err)
		}
	}
	return all, nil
}

// Find searches the files for the entry that decides about an address at a time; nil: none does. It holds one line at a time.
func (f Files) Find(a netip.Addr, now time.Time) (best *Entry, file string, err error) {
	a = a.Unmap().WithZone("")
	for n, list := range f {
		if err := f.find(n, func(e *Entry) {
			if e.holds(now) && e.Prefix().Contains(a) && (best == nil || e.bits > best.bits || e.bits == best.bits && order(e, best) < 0) {
				found := *e
				best, file = &found, list.Path
			}
		}); err != nil {
			return nil, "", err
		}
	}
	return best, file, nil
}

func (f Files) find(n int, each func(e *Entry)) error {
	r, err := os.Open(f[n].Path)
	if os.IsNotExist(err) && f[n].Optional {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return scan(r, f[n].Path, f[n].Verdict, uint8(n), func(e *Entry) error {
		each(e)
		return nil
	})
}

// holds reports whether an entry has not expired.
func (e *Entry) holds(now time.Time) bool { return e.Until == 0 || e.Until > now.Unix() }

// Current are the entries that have not expired, and when the next of them does; the zero time: none ever does.
func Current(all []Entry, now time.Time) (current []Entry, next time.Time) {
	current = make([]Entry, 0, len(all))
	first := int64(0)
	for i := range all {
		if !all[i].holds(now) {
			continue
		}
		current = append(current, all[i])
		if u := all[i].Until; u != 0 && (first == 0 || u < first) {
			first = u
		}
	}
	if first != 0 {
		next = time.Unix(first, 0)
	}
	return current, next
}
