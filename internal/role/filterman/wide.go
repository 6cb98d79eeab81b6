// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"fmt"
	"slices"

	"tidegate/internal/upstream"
)

// A source can be so wide that it is in the networks of several border managers. Then the filter is requested from
// each of them, and it is installed only when all of them have installed it.

// bordersMax bounds the border managers from which one filter is requested.
const bordersMax = 256

// placeWide finds the border managers of a source that is more than one address.
func (e *Entry) placeWide(a upstream.Authority) error {
	list := a.BorderManagersFor(e.Src, bordersMax+1)
	switch {
	case len(list) == 0:
		return ErrNoBorder
	case len(list) > bordersMax:
		return ErrTooWide
	}
	e.placeAt(list)
	return nil
}

// placeAt makes the sites of a filter that is yet to be requested.
func (e *Entry) placeAt(list []upstream.Endpoint) {
	if len(list) == 1 {
		e.Site = siteAt(e, &list[0])
		return
	}
	e.State, e.BM = Asked, &noAddr
	e.Borders = make([]Site, len(list))
	for i := range list {
		e.Borders[i] = siteAt(e, &list[i])
	}
}

// sites visits the filter's sites.
func (e *Entry) sites(visit func(*Site) bool) {
	if e.Borders == nil {
		visit(&e.Site)
		return
	}
	for i := range e.Borders {
		if !visit(&e.Borders[i]) {
			return
		}
	}
}

func (e *Entry) siteCount() int { return max(len(e.Borders), 1) }

// copied is the entry as others may have it while this one changes.
func (e *Entry) copied() Entry {
	c := *e
	c.Borders = slices.Clone(e.Borders)
	return c
}

// sum brings the whole into line with its sites, and returns why it is not installed everywhere. A site that no longer has
// the filter, because it has expired there, does not count.
func (e *Entry) sum() error {
	n := map[State]int{}
	e.Proven, e.Packets, e.Bytes, e.Code = true, 0, 0, ""
	var first *Site // that has refused
	for i := range e.Borders {
		at := &e.Borders[i]
		n[at.State]++
		e.Packets, e.Bytes = e.Packets+at.Packets, e.Bytes+at.Bytes
		e.Proven = e.Proven && (at.Proven || at.State != Installed)
		if at.State == Refused && first == nil {
			first = at
		}
	}
	e.Proven = e.Proven && n[Installed] > 0
	switch {
	case n[Asked] > 0:
		e.State = Asked
		return nil
	case n[Installed] > 0 && n[Refused] > 0:
		e.State = Partial
	case n[Installed] > 0:
		e.State = Installed
	case n[Refused] > 0:
		e.State = Refused
	default:
		e.State = Gone
	}
	if first == nil {
		return nil
	}
	e.Code = fmt.Sprintf("%d of %d border managers have not installed it; %s: %s", n[Refused], len(e.Borders), first.BM, first.Code)
	return fmt.Errorf("%s", e.Code)
}
