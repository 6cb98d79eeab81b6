// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Spread is when something had reached the managers.
type Spread struct {
	Reached  int           `json:"reached"`
	Of       int           `json:"of"`
	Median   time.Duration `json:"-"`
	Max      time.Duration `json:"-"`
	MedianMs float64       `json:"median_ms"`
	MaxMs    float64       `json:"max_ms"`
}

// Complete tells whether it reached everybody.
func (s Spread) Complete() bool { return s.Reached == s.Of && s.Of > 0 }

// Result of a simulation. Times are virtual unless they say otherwise.
type Result struct {
	Managers int     `json:"managers"`
	Hostile  int     `json:"hostile"`
	Bindings int     `json:"bindings"`
	Degree   int     `json:"degree"`
	DelayMs  float64 `json:"delay_ms"`
	LinkMbit float64 `json:"link_mbit_s"`
	VerifyUs float64 `json:"verify_us"` // charged for a signature
	Seed     uint64  `json:"seed"`

	Cold          Spread  `json:"cold_start"`
	ColdBytes     float64 `json:"cold_bytes_in"`   // of one honest manager, on average
	ColdAsked     float64 `json:"cold_asked"`      // records asked for, of one honest manager, on average
	RecordBytes   float64 `json:"record_bytes"`    // of all bindings once
	IdleBytesPerS float64 `json:"idle_bytes_in_s"` // of one honest manager, nothing being new

	Updates []Spread `json:"updates"` // the last one is a revocation

	Refused      map[string]uint64 `json:"refused"` // records, by honest managers
	Closed       map[string]uint64 `json:"closed"`  // connections, by honest managers
	PushIgnored  uint64            `json:"push_ignored"`
	Unanswered   uint64            `json:"unanswered"`
	HonestBanned int               `json:"honest_banned"` // by honest ones: an error of the protocol

	VirtualSeconds    float64 `json:"virtual_s"`
	WallSeconds       float64 `json:"wall_s"`
	HeapMiB           float64 `json:"heap_mib"`           // at the end
	SystemMiB         float64 `json:"system_mib"`         // taken from the system, at most
	SignaturesAsked   int     `json:"signatures_asked"`   // by managers; each is charged for each
	SignaturesChecked int     `json:"signatures_checked"` // of different records: the result is shared
}

// WorstUpdate is the slowest of the updates.
func (r *Result) WorstUpdate() Spread {
	worst := Spread{}
	for i, u := range r.Updates {
		if i == 0 || !u.Complete() || worst.Complete() && u.Max > worst.Max {
			worst = u
		}
	}
	return worst
}

// OK tells whether everything reached every honest manager.
func (r *Result) OK() bool {
	return r.Cold.Complete() && r.WorstUpdate().Complete() && r.HonestBanned == 0
}

// Print writes results as one table, a column each.
func Print(w io.Writer, list []*Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, f func(*Result) string) {
		cells := []string{name}
		for _, r := range list {
			cells = append(cells, f(r))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("managers (hostile)", func(r *Result) string { return fmt.Sprintf("%d (%d)", r.Managers, r.Hostile) })
	row("bindings", func(r *Result) string { return fmt.Sprint(r.Bindings) })
	row("links", func(r *Result) string {
		return fmt.Sprintf("%d each, %g ms, %g Mbit/s", r.Degree, r.DelayMs, r.LinkMbit)
	})
	row("charged for a signature", func(r *Result) string { return fmt.Sprintf("%g us", r.VerifyUs) })
	row("cold start: managers complete", func(r *Result) string { return fmt.Sprintf("%d of %d", r.Cold.Reached, r.Cold.Of) })
	row("cold start: half, all after", func(r *Result) string { return fmt.Sprintf("%.1f s, %.1f s", r.Cold.MedianMs/1e3, r.Cold.MaxMs/1e3) })
	row("cold start: received by one", func(r *Result) string {
		return fmt.Sprintf("%.1f MB (%.2f times the records)", r.ColdBytes/1e6, r.ColdBytes/r.RecordBytes)
	})
	row("update: half, all after (worst)", func(r *Result) string {
		u := r.WorstUpdate()
		return fmt.Sprintf("%.0f ms, %.0f ms", u.MedianMs, u.MaxMs)
	})
	row("update: managers reached (worst)", func(r *Result) string { u := r.WorstUpdate(); return fmt.Sprintf("%d of %d", u.Reached, u.Of) })
	row("received by one, nothing new", func(r *Result) string { return fmt.Sprintf("%.0f B/s", r.IdleBytesPerS) })
	row("connections closed", func(r *Result) string { return counts(r.Closed) })
	row("records refused", func(r *Result) string { return counts(r.Refused) })
	row("pushed records not looked at", func(r *Result) string { return fmt.Sprint(r.PushIgnored) })
	row("honest managers banned", func(r *Result) string { return fmt.Sprint(r.HonestBanned) })
	row("signatures: by managers, really", func(r *Result) string {
		return fmt.Sprintf("%d, %d (a record's once, its result shared)", r.SignaturesAsked, r.SignaturesChecked)
	})
	row("virtual, real time", func(r *Result) string { return fmt.Sprintf("%.0f s, %.0f s", r.VirtualSeconds, r.WallSeconds) })
	row("memory", func(r *Result) string { return fmt.Sprintf("%.0f MiB", r.SystemMiB) })
	return t.Flush()
}

func counts(m map[string]uint64) string {
	if len(m) == 0 {
		return "none"
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(words, ", ")
}
