// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/sourcelist"
)

// expiryShare is the share of the time that rebuilding tables because entries have expired may take: one in so many parts. A
// table of a million entries takes half a second.
const expiryShare = 20

// lists are the allow and deny lists that the packet path has, or is about to get.
type lists struct {
	there  bool
	timed  []sourcelist.Entry // all of them, if any expires; otherwise none is kept
	next   time.Time          // when the first expires; zero: none does
	made   time.Time
	took   time.Duration // to make it
	table  *plane.List   // not yet in the packet path
	counts [3]int        // by verdict
	bytes  int
}

func (l *lists) state() *instance.ListsState {
	if !l.there {
		return nil
	}
	return &instance.ListsState{Allow: l.counts[sourcelist.Allow], Deny: l.counts[sourcelist.Deny], Bytes: l.bytes}
}

// readLists reads the lists of a configuration, and changes nothing.
func (g *gate) readLists(cfg *config.Config) (lists, error) {
	if !cfg.HasLists() {
		return lists{}, nil
	}
	all, err := instance.SourceLists(g.opt.StateDir, cfg).Read()
	if err != nil {
		return lists{}, err
	}
	return makeLists(all, g.opt.Now())
}

func makeLists(all []sourcelist.Entry, now time.Time) (l lists, err error) {
	began := time.Now()
	defer func() { l.took = time.Since(began) }()
	current, next := sourcelist.Current(all, now)
	l.made, l.next = now, next
	if !next.IsZero() {
		l.timed = all
	}
	if len(current) == 0 {
		return l, nil
	}
	table, err := sourcelist.Build(current)
	if err != nil {
		return l, err
	}
	for _, e := range table.Entries() {
		l.counts[e.Verdict]++
	}
	if l.table, err = plane.NewList(table); err != nil {
		return l, err
	}
	l.there, l.bytes = true, table.Blocks()*sourcelist.BlockBytes
	return l, nil
}

// useLists gives what readLists has read to the packet path: each packet meets the lists before or these.
func (g *gate) useLists(l lists) error {
	if !l.there && !g.lists.there {
		g.lists = l
		return nil
	}
	if err := g.plane.SetList(l.table); err != nil {
		return err
	}
	l.table = nil
	g.lists = l
	g.settings.Lists = 0
	if l.there {
		g.settings.Lists = 1
	}
	g.log.Info("source lists in effect", "allow", l.counts[sourcelist.Allow], "deny", l.counts[sourcelist.Deny], "bytes", l.bytes)
	return g.plane.SetSettings(&g.settings)
}

// expireLists rebuilds the table when entries have expired.
func (g *gate) expireLists(now time.Time) error {
	if g.lists.next.IsZero() || now.Before(g.lists.next) || now.Sub(g.lists.made).Abs() < expiryShare*g.lists.took {
		return nil
	}
	l, err := makeLists(g.lists.timed, now)
	if err != nil {
		return err
	}
	if err := g.useLists(l); err != nil {
		return err
	}
	return g.writeState()
}
