// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/sourcelist"
)

// ListEntry is a prefix that was allowed or denied by hand.
type ListEntry struct {
	Prefix  string             `json:"prefix"`
	Verdict sourcelist.Verdict `json:"verdict"`
	Until   *time.Time         `json:"until,omitempty"` // none: until it is removed
	Comment string             `json:"comment,omitempty"`
}

func listEntry(e *sourcelist.Entry) ListEntry {
	out := ListEntry{Prefix: e.Prefix().String(), Verdict: e.Verdict, Comment: e.Comment}
	if t := e.Expires(); !t.IsZero() {
		t = t.UTC()
		out.Until = &t
	}
	return out
}

func (l *ListEntry) entry() (e sourcelist.Entry, err error) {
	p, err := sourcelist.ParsePrefix(l.Prefix)
	if err != nil {
		return e, err
	}
	if l.Verdict == sourcelist.None {
		return e, errors.New("`verdict` is missing: want allow or deny")
	}
	if strings.ContainsAny(l.Comment, "\n\r") {
		return e, errors.New("`comment` has more than one line; write one")
	}
	e = sourcelist.NewEntry(p, l.Verdict)
	e.Comment = strings.TrimSpace(l.Comment)
	if len(e.Comment) > sourcelist.MaxComment {
		return e, fmt.Errorf("`comment` has %d bytes, want at most %d", len(e.Comment), sourcelist.MaxComment)
	}
	if l.Until != nil {
		if e.Until = l.Until.Unix(); !l.Until.After(time.Now()) {
			return e, fmt.Errorf("`until` %s has passed", l.Until.UTC().Format(time.RFC3339))
		}
	}
	return e, nil
}

// lists answers with the entries made by hand that hold.
func (s *Server) lists(w http.ResponseWriter, _ *http.Request) {
	all, err := instance.ReadByHand(s.opt.StateDir, s.name)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	all, _ = sourcelist.Current(all, time.Now())
	out := make([]ListEntry, 0, len(all))
	for i := range all {
		out = append(out, listEntry(&all[i]))
	}
	answer(w, out)
}

func (s *Server) addToList(w http.ResponseWriter, r *http.Request) {
	var body ListEntry
	if err := decode(r, &body); err != nil {
		refuseBody(w, err)
		return
	}
	e, err := body.entry()
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if s.changeLists(w, r, func(all []sourcelist.Entry) ([]sourcelist.Entry, error) { return instance.WithEntry(all, e), nil }) {
		answer(w, listEntry(&e))
	}
}

func (s *Server) removeFromList(w http.ResponseWriter, r *http.Request) {
	p, err := sourcelist.ParsePrefix(r.URL.Query().Get("prefix"))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if s.changeLists(w, r, func(all []sourcelist.Entry) ([]sourcelist.Entry, error) {
		rest, there := instance.WithoutPrefix(all, p)
		if !there {
			return nil, fmt.Errorf("%s was not allowed or denied by hand; GET /v1/lists (`tidegate lists`) shows what was; entries of files are removed there", p)
		}
		return rest, nil
	}) {
		answer(w, map[string]string{"removed": p.String()})
	}
}

// changeLists writes the entries made by hand, reloads, and restores the old ones if the reload is refused. It reports whether
// the change is in force; otherwise it has answered.
func (s *Server) changeLists(w http.ResponseWriter, r *http.Request, change func([]sourcelist.Entry) ([]sourcelist.Entry, error)) bool {
	if c := s.of.Config(); !c.HasLists() {
		refuse(w, http.StatusNotFound, fmt.Errorf("role %s has no lists as it is configured; roles %s, %s and %s have, except on `plane: p4`, and role %s where it answers SYNs (`without_edge: answer`, or `takeover: translate`)", c.Role, config.RoleHost, config.RoleProxy, config.RoleEdge, config.RoleServer))
		return false
	}
	s.modes.Lock()
	defer s.modes.Unlock()
	before, err := instance.ReadByHand(s.opt.StateDir, s.name)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return false
	}
	now, _ := sourcelist.Current(before, time.Now())
	next, err := change(slices.Clone(now))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return false
	}
	if err = instance.WriteByHand(s.opt.StateDir, s.name, next); err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadTime) // half a change is worse than none
		defer cancel()
		if _, err = s.of.Reload(ctx); err != nil {
			if back := instance.WriteByHand(s.opt.StateDir, s.name, before); back != nil {
				err = fmt.Errorf("%w; and the entry was not taken back: %w", err, back)
			}
		}
	}
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return false
	}
	s.forget()
	return true
}
