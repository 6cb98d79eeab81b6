// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/instance"
)

// Conditions: readings in which protection is less than complete; internal/event makes events of them.

// Names of conditions. docs/events.md lists them.
const (
	CondAdoptionRefused = "adoption-refused"
	CondMPTCP           = "mptcp-listener"
	CondSyncookies      = "syncookies-off"
	CondNoListener      = "no-listener"
	CondKeysStale       = "keys-stale"
	CondCannotVerify    = "cannot-verify"
	CondFilterSaturated = "filter-saturated"
	CondTableFull       = "table-full"
	CondOneSided        = "one-sided"
	CondRoutesUnknown   = "routes-unknown"
	CondDetached        = "detached"
	CondPatrolDown      = "patrol-down"
	CondSwitchSilent    = "switch-silent"
	CondBGPDown         = "bgp-down"

	CondServiceWithdrawn = "service-withdrawn"
)

// watchEvery is how often an instance is read; readings that take long are made more rarely, so that
// they take a twentieth of a processor at most.
const (
	watchEvery = time.Second
	watchShare = 20
)

// WatchConditions tells a stream which conditions last, until ctx ends.
func WatchConditions(ctx context.Context, opt instance.Options, cfg *config.Config, stream *event.Stream, log *slog.Logger) {
	w, over := Watcher{Horizon: cfg.KeyHorizon}, offenders{looked: time.Now()}
	if opt.Trial > 0 {
		w.Horizon = 0
	}
	pause, failed := watchEvery, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		begun := time.Now()
		reading, err := ReadAny(opt, cfg.Instance)
		if err != nil {
			if !failed && ctx.Err() == nil {
				log.Warn("events: cannot read the instance's status; retrying", "error", err)
			}
			failed = true
		} else {
			failed = false
			stream.Conditions(w.Look(reading, opt.Now()))
			if st, ok := reading.(*Status); ok {
				if detail, due := over.look(st.SourceLimits, begun); due {
					stream.Emit(event.OffenderProven, "sources whose addresses are proven begin more connections than source_limits allows; the rates are those above the limit", detail)
				}
			}
		}
		pause = max(watchEvery, watchShare*time.Since(begun))
	}
}

// Watcher reads one instance repeatedly; some conditions are changes since the last reading.
type Watcher struct {
	Horizon time.Duration // for how long keys are loaded ahead, if nothing is wrong; 0: they are to end, with a trial
	full    map[string]uint64
}

// Look returns the conditions that last.
func (w *Watcher) Look(r Reading, now time.Time) (list []event.Condition) {
	switch r := r.(type) {
	case *Status:
		return w.ofServices(r, now)
	case *upstreamReading:
		return w.ofUpstream(r)
	}
	return nil
}

func (w *Watcher) ofServices(st *Status, now time.Time) (list []event.Condition) {
	add := func(c event.Condition) { list = append(list, c) }
	// Keys are loaded every epoch: half the horizon without new ones is not a matter of timing.
	if left := st.KeysUntil.Sub(now); w.Horizon > 0 && left < w.Horizon/2 {
		what := map[bool]string{false: "SYNs pass unprotected", true: "SYNs are dropped"}[st.StaleKeys == string(config.StaleKeysDrop)]
		add(event.Condition{Name: CondKeysStale, Message: "no new keys are loaded: when those that are there end, " + what + "; see the daemon's log",
			Detail: map[string]string{"keys-until": st.KeysUntil.UTC().Format(time.RFC3339)}})
	}
	if st.Unverifiable {
		add(event.Condition{Name: CondCannotVerify, Message: Unverifiable})
	}
	for i := range st.Services {
		list = append(list, listenerConditions(&st.Services[i])...)
	}
	if e := st.Edge; e != nil && e.Alarm {
		add(event.Condition{Name: CondFilterSaturated, Message: "the filter is saturated: that share of forged segments goes on to the servers; raise filter_bits or shorten filter_window",
			Detail: map[string]string{"false-positives": fmt.Sprintf("%.3f", e.FPMeasured)}})
	}
	if st.OneSided {
		add(event.Condition{Name: CondOneSided, Message: "servers' answers do not pass here: strategies cookie and cache need symmetric paths (or the servers are down)"})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Detached)) {
		add(event.Condition{Name: CondDetached, Subject: name, Message: "no packet of this interface is seen: " + st.Detached[name]})
	}
	for _, family := range slices.Sorted(maps.Keys(st.Unrouted)) {
		add(event.Condition{Name: CondRoutesUnknown, Subject: family, Message: "the routes of " + family + " are not modelled, so that answers go back to where SYNs came from: " + st.Unrouted[family]})
	}
	if st.P4 != nil && !st.P4.Answers {
		add(event.Condition{Name: CondSwitchSilent, Message: "the switch does not answer: " + st.P4.Why})
	}
	list = append(list, routerConditions(st.Routers)...)
	full := map[string]uint64{}
	count := func(service string, counters map[string]uint64) {
		for _, name := range tables {
			key := service + "\x00" + name
			full[key] = counters[name]
			if before, known := w.full[key]; known && counters[name] > before {
				add(event.Condition{Name: CondTableFull, Service: service, Subject: name,
					Message: "a table is full, and who is new is not served (" + name + "); make it larger: max_flows, max_sources, max_connections"})
			}
		}
	}
	count("", st.Global)
	for _, s := range st.Services {
		count(s.Name, s.Counters)
	}
	w.full = full
	return list
}

// tables are the counters of clients that were not served because a table was full.
var tables = []string{"white_full", "flow_full", "split_full", "store_full"}

func listenerConditions(s *Service) (list []event.Condition) {
	if s.Mode == string(config.ModeOff) {
		return nil
	}
	if s.Listener == "none" {
		return []event.Condition{{Name: CondNoListener, Service: s.Name, Message: "nothing listens: SYNs go to the kernel, which answers RST"}}
	}
	names := map[string]string{adopt.ReasonMPTCP: CondMPTCP, adopt.ReasonSyncookies: CondSyncookies, adopt.ReasonRefused: CondAdoptionRefused}
	by := map[string][]Degraded{} // one condition for all listeners of a service
	for _, d := range s.Degraded {
		by[d.Reason] = append(by[d.Reason], d)
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		var at []string
		for _, d := range by[reason] {
			at = append(at, d.Listener.String())
		}
		more := ""
		if n := len(at) - listenersNamed; n > 0 {
			at, more = at[:listenersNamed], fmt.Sprintf(" and %d more", n)
		}
		why := (&Degraded{Reason: reason}).Cure()
		list = append(list, event.Condition{Name: names[reason], Service: s.Name, Message: "SYNs go to the kernel, unprotected: " + why,
			Detail: map[string]string{"listeners": strings.Join(at, " ") + more}})
	}
	return list
}

// listenersNamed is how many listeners an event names.
const listenersNamed = 8

func (w *Watcher) ofUpstream(u *upstreamReading) (list []event.Condition) {
	for _, p := range u.Patrols {
		if !p.Up {
			list = append(list, event.Condition{Name: CondPatrolDown, Subject: p.Name, Message: "no connection to the patrol " + p.Name + "; its filters stay in force"})
		}
	}
	if most := u.Figures["filters_max"]; most > 0 && u.Figures["filters"] >= most {
		list = append(list, event.Condition{Name: CondTableFull, Subject: "filters", Message: "the table of filters is full; raise max_filters"})
	}
	return list
}
