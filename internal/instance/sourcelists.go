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
	took   time.Duration     // to make it
	kernel *plane.List       // the table, not yet in the packet path
	table  *sourcelist.Table // the same, for a packet path outside the kernel
	dpdk   bool
	counts [3]int // by verdict
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
	return makeLists(all, now, cfg.Plane == config.PlaneDPDK)
}

func makeLists(all []sourcelist.Entry, now time.Time, dpdk bool) (l Lists, err error) {
	began := time.Now()
	defer func() { l.took = time.Since(began) }()
	l.dpdk = dpdk
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
	if dpdk {
		l.table = table
	} else if l.kernel, err = plane.NewList(table); err != nil {
		return l, err
	}
	l.there, l.bytes = true, table.Blocks()*sourcelist.BlockBytes
	return l, nil
}

// Use gives what ReadLists has read to the kernel's packet path: each packet meets the lists before or these.
func (l *Lists) Use(next Lists, p *plane.Plane, s *plane.Settings, log *slog.Logger) error {
	return l.replace(next, log, func() error {
		if err := p.SetList(next.kernel); err != nil {
			return err
		}
		s.Lists = Flag(next.there)
		return p.SetSettings(s)
	})
}

// UseBy is Use for a packet path outside the kernel, which `give` gives the table; nil: there are none.
func (l *Lists) UseBy(next Lists, give func(*sourcelist.Table) error, log *slog.Logger) error {
	return l.replace(next, log, func() error { return give(next.table) })
}

func (l *Lists) replace(next Lists, log *slog.Logger, give func() error) error {
	if next.there || l.there {
		if err := give(); err != nil {
			return err
		}
		log.Info("source lists in effect", "allow", next.counts[sourcelist.Allow], "deny", next.counts[sourcelist.Deny], "bytes", next.bytes)
	}
	next.kernel, next.table = nil, nil
	*l = next
	return nil
}

// Expire rebuilds the table when entries have expired, and has it used; changed: the state file is to be written.
func (l *Lists) Expire(now time.Time, use func(Lists) error) (changed bool, err error) {
	if l.next.IsZero() || now.Before(l.next) || now.Sub(l.made).Abs() < expiryShare*l.took {
		return false, nil
	}
	next, err := makeLists(l.timed, now, l.dpdk)
	if err != nil {
		return false, err
	}
	return true, use(next)
}

// useLists is Use for the packet path of an edge or a proxy.
func (b *Instance) useLists(next Lists, p Path) error {
	return b.Lists.Use(next, p.Maps, &b.Settings, b.Log)
}

// expireLists is Expire for the packet path of an edge or a proxy.
func (b *Instance) expireLists(p Path) error {
	changed, err := b.Lists.Expire(b.Opt.Now(), func(next Lists) error { return b.useLists(next, p) })
	if err != nil || !changed {
		return err
	}
	return WriteState(b.Opt.StateDir, p.State())
}
