// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"slices"
	"time"

	"tidegate/internal/detect"
	"tidegate/internal/schema"
)

// AttackKind is what has happened to an attack.
type AttackKind string

// What happens to attacks.
const (
	AttackBegan   AttackKind = "began"
	AttackChanged AttackKind = "changed"
	AttackEnded   AttackKind = "ended"
)

// Attack is the detector's view of an attack, and the response to it.
type Attack struct {
	Kind     AttackKind     `json:"-"`
	Service  string         `json:"service"`
	Strategy string         `json:"strategy"`           // how SYNs are answered
	All      bool           `json:"all"`                // for every address of the service
	Prefixes []netip.Prefix `json:"prefixes,omitempty"` // under attack, most SYNs first; at most topPrefixes
	Began    time.Time      `json:"began"`
	SYNs     uint64         `json:"syns"`     // since it began
	Answered uint64         `json:"answered"` // of them, with cookies, challenges or from the cache
	Detector detect.Reading `json:"detector"`
	// Fleet names other nodes, at most topGates: this node answers SYNs only because of what they see. The one that claims the most is first.
	Fleet []string `json:"fleet,omitempty"`
}

// answered counts SYNs that were answered.
func answered(row *[schema.NumCounters]uint64) uint64 {
	return row[schema.CounterCookieSent] + row[schema.CounterChallengeSent] + row[schema.CounterCacheKept]
}

// tell emits events for attacks that have begun, changed or ended.
func (a *Automatic) tell(name string, s *automatic, row [schema.NumCounters]uint64, now time.Time) {
	on, was := s.decision.On(), s.attack.Service != ""
	if !on && !was {
		return
	}
	if on && !was {
		s.attack = Attack{Service: name, Began: now}
		s.start = row
	}
	t := &s.attack
	t.Strategy, t.All, t.Detector = s.strategy, s.decision.All, s.detect.Read()
	t.SYNs, t.Answered = sub(row[schema.CounterSyn], s.start[schema.CounterSyn]), sub(answered(&row), answered(&s.start))
	if on {
		if hit := a.hit(s); len(hit) > 0 {
			t.Prefixes = hit
		}
	}
	if on && !s.own.On() && s.shared != nil {
		t.Fleet = s.wordOf()
	}
	rate := t.Detector.Missing
	switch {
	case on && !was:
		t.Kind = AttackBegan
		a.log.Warn("an attack has begun; SYNs are answered", "service", name, "uncompleted_per_second", int(rate), "prefixes", t.Prefixes, "all", t.All, "by_the_word_of", t.Fleet)
	case !on:
		t.Kind = AttackEnded
		a.log.Info("an attack has ended; SYNs go by", "service", name, "lasted", now.Sub(t.Began).Round(time.Second), "syns", t.SYNs)
	case now.Sub(s.reportedAt) >= changedEvery && (rate > s.reportedRate*changedBy || rate < s.reportedRate/changedBy):
		t.Kind = AttackChanged
	default:
		return
	}
	s.reportedAt, s.reportedRate = now, rate
	if a.detection.OnAttack != nil {
		a.detection.OnAttack(*t)
	}
	if !on {
		s.attack = Attack{}
	}
}

// hit are the prefixes under attack, most SYNs first.
func (a *Automatic) hit(s *automatic) (list []netip.Prefix) {
	for _, top := range s.detect.Top(topPrefixes) {
		if place, there := a.places[top.At]; there && (top.On || slices.Contains(s.decision.Prefixes, top.At) || top.Missing > 0 && s.decision.All && top.Missing*topPrefixes > s.detect.Read().Missing) {
			list = append(list, place.Prefix)
		}
	}
	return list
}

// read and write preserve which attacks are active, and since when, for the next process.
func (a *Automatic) read() map[string]time.Time {
	on := map[string]time.Time{}
	text, err := os.ReadFile(a.path)
	if err == nil {
		err = json.Unmarshal(text, &on)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Warn("the record of active attacks cannot be read; they will be detected again", "file", a.path, "error", err)
		return nil
	}
	return on
}

func (a *Automatic) write() {
	on := map[string]time.Time{}
	for name, s := range a.services {
		if s.decision.On() {
			on[name] = s.attack.Began
		}
	}
	text, err := json.Marshal(on)
	if err == nil {
		err = errors.Join(os.WriteFile(a.path+".new", text, 0o600), os.Rename(a.path+".new", a.path))
	}
	if err != nil {
		a.log.Error("the record of active attacks cannot be written; a restart must detect them again", "error", err)
	}
}
