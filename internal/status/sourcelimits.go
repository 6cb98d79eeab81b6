// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/plane"
)

// SourceLimits are the limits of one source, and the sources that have exceeded them.
type SourceLimits struct {
	config.SourceLimits
	Sources []OverLimit `json:"sources"` // those that did so last; at most sourcesShown
	More    int         `json:"more,omitempty"`
	all     []OverLimit
}

// OverLimit is a source that has begun more connections than it may.
type OverLimit struct {
	Prefix netip.Prefix `json:"prefix"`
	Over   uint64       `json:"over"` // as many were above a limit
	Held   uint64       `json:"held"` // of these: while it held as many as it may
	First  time.Time    `json:"first"`
	Last   time.Time    `json:"last"`
}

// Describe says what the limits are.
func (l *SourceLimits) Describe() string {
	var parts []string
	if l.NewPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%d new connections a second", l.NewPerSecond))
	}
	if l.Concurrent > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrent))
	}
	return strings.Join(parts, ", ")
}

// Describe says how often a source was above its limits.
func (o *OverLimit) Describe() string {
	text := fmt.Sprintf("%d connections since %s", o.Over, o.First.Format(time.RFC3339))
	if o.Held > 0 {
		text += fmt.Sprintf(", %d of them while it held too many", o.Held)
	}
	return text + fmt.Sprintf(", the last %s ago", time.Since(o.Last).Round(time.Second))
}

// sourcesShown bounds what `status` shows.
const sourcesShown = 20

func readSourceLimits(l *config.SourceLimits, dir, dpdkPrefix string) (*SourceLimits, error) {
	all, err := ReadOverLimit(dir, dpdkPrefix)
	if err != nil {
		return nil, err
	}
	out := &SourceLimits{SourceLimits: *l, Sources: all, all: all}
	if len(all) > sourcesShown {
		out.Sources, out.More = all[:sourcesShown], len(all)-sourcesShown
	}
	return out, nil
}

// ReadOverLimit reads all sources above their limit that the packet path remembers, the last first. dir has the pins; under plane: dpdk,
// the program with this prefix is asked.
func ReadOverLimit(dir, dpdkPrefix string) (list []OverLimit, err error) {
	var rows []plane.OverLimit
	if dpdkPrefix != "" {
		rows, err = dpdk.ReadOverLimit(dpdkPrefix)
	} else {
		rows, err = plane.OpenOverLimit(dir)
	}
	if err != nil {
		return nil, err
	}
	wall, mono := time.Now(), plane.MonotonicNs()
	at := func(ns int64) time.Time { return wall.Add(time.Duration(ns - mono)).UTC().Truncate(time.Millisecond) }
	list = make([]OverLimit, len(rows))
	for i, r := range rows {
		list[i] = OverLimit{r.Prefix, r.Over, r.Held, at(r.FirstNs), at(r.LastNs)}
	}
	return list, nil
}

// offenders finds the sources that exceed their limit, for events. Each is named when it begins to, and again when it has not
// been for a while; what many do at once is one event.
type offenders struct {
	seen   map[netip.Prefix]offence
	looked time.Time // the packet path's table is as new as this process
	told   time.Time // of the last event
}

type offence struct {
	over  uint64  // at the last look
	rate  float64 // a second, above the limit, when it last grew
	grew  time.Time
	named bool
}

const (
	offendersEvery = 10 * time.Second // between two events
	offenceEnds    = 5 * time.Minute  // a source that was named is named again only after it has been quiet for so long
	offendersNamed = 8
)

// look returns what an event shall say; false: none is due.
func (o *offenders) look(l *SourceLimits, now time.Time) (detail map[string]string, due bool) {
	if l == nil {
		o.looked = now
		return nil, false
	}
	seen := make(map[netip.Prefix]offence, len(l.all))
	for _, s := range l.all {
		was, known := o.seen[s.Prefix]
		is := was
		is.over = s.Over
		if !known || s.Over != was.over {
			grown := s.Over
			if s.Over > was.over {
				grown -= was.over
			}
			is.rate, is.grew = float64(grown)/now.Sub(o.looked).Seconds(), now
			is.named = was.named && now.Sub(was.grew) <= offenceEnds
		}
		seen[s.Prefix] = is
	}
	o.seen, o.looked = seen, now
	if now.Sub(o.told) < offendersEvery {
		return nil, false
	}
	var fresh []string
	for _, s := range l.all {
		if is := seen[s.Prefix]; !is.named {
			is.named = true
			seen[s.Prefix] = is
			fresh = append(fresh, fmt.Sprintf("%s (%.0f/s)", s.Prefix, is.rate))
		}
	}
	if len(fresh) == 0 {
		return nil, false
	}
	o.told = now
	detail = map[string]string{"limit_per_second": fmt.Sprint(l.NewPerSecond), "limit_concurrent": fmt.Sprint(l.Concurrent), "action": string(l.Action)}
	if n := len(fresh) - offendersNamed; n > 0 {
		fresh, detail["more"] = fresh[:offendersNamed], fmt.Sprint(n)
	}
	detail["above_limit"] = strings.Join(fresh, ", ")
	return detail, true
}
