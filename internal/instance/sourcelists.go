// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"log/slog"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/sourcelist"
)

// expiryShare is the share of the time that rebuilding tables because entries have expired may take: one in so many parts. A
// table of a million entries takes half a second.
const expiryShare = 20

// Lists are the allow and deny lists that a packet path has, or is about to get. The zero value: none.
type Lists struct {
	there  bool
	timed  []sourcelist.Entry // all of them, if any expires; otherwise none is kept
	next   time.Time          // when the first expires; zero: none does
	made   time.Time
	took   time.Duration // to make it
	table  *plane.List   // not yet in the packet path
	counts [3]int        // by verdict
	bytes  int
}

// There reports whether the packet path has to look sources up.
func (l *Lists) There() bool { return l.there }

// State is what the state file says of them.
func (l *Lists) State() *ListsState {
	if !l.there {
		return nil
	}
	return &ListsState{Allow: l.counts[sourcelist.Allow], Deny: l.counts[sourcelist.Deny], Bytes: l.bytes}
}

// ReadLists reads the lists of a configuration, and changes nothing.
func ReadLists(stateDir string, cfg *config.Config, now time.Time) (Lists, error) {
	if !cfg.HasLists() {
		return Lists{}, nil
	}
	all, err := SourceLists(stateDir, cfg).Read()
	if err != nil {
		return Lists{}, err
	}
	return makeLists(all, now)
}

func makeLists(all []sourcelist.Entry, now time.Time) (l Lists, err error) {
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

// Use gives what ReadLists has read to the packet path: each packet meets the lists before or these.
func (l *Lists) Use(next Lists, p *plane.Plane, s *plane.Settings, log *slog.Logger) error {
	if !next.there && !l.there {
		*l = next
		return nil
	}
	if err := p.SetList(next.table); err != nil {
		return err
	}
	next.table = nil
	*l = next
	s.Lists = Flag(l.there)
	log.Info("source lists in effect", "allow", l.counts[sourcelist.Allow], "deny", l.counts[sourcelist.Deny], "bytes", l.bytes)
	return p.SetSettings(s)
}

// Expire rebuilds the table when entries have expired; changed: the state file is to be written.
func (l *Lists) Expire(now time.Time, p *plane.Plane, s *plane.Settings, log *slog.Logger) (changed bool, err error) {
	if l.next.IsZero() || now.Before(l.next) || now.Sub(l.made).Abs() < expiryShare*l.took {
		return false, nil
	}
	next, err := makeLists(l.timed, now)
	if err != nil {
		return false, err
	}
	return true, l.Use(next, p, s, log)
}

// expireLists is Expire for the packet path of an edge or a proxy.
func (b *Instance) expireLists(p Path) error {
	changed, err := b.Lists.Expire(b.Opt.Now(), p.Maps, &b.Settings, b.Log)
	if err != nil || !changed {
		return err
	}
	return WriteState(b.Opt.StateDir, p.State())
}
