// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// What changes the instance, or would change it: modes, reloads, differences. And its events.

// Mode is the mode of a service.
type Mode struct {
	Mode       config.Mode `json:"mode"` // in force
	Configured config.Mode `json:"configured"`
	ByHand     bool        `json:"by_hand"`
}

// modesNow returns the modes of all services: those in force, and those of the file on disk.
func (s *Server) modesNow() (map[string]Mode, error) {
	byHand, err := instance.ReadModes(s.opt.StateDir, s.name)
	if err != nil {
		return nil, err
	}
	configured := map[string]config.Mode{}
	if file, err := config.Load(s.opt.ConfigPath); err == nil {
		for _, svc := range file.Services {
			configured[svc.Name] = svc.Mode
		}
	}
	all := map[string]Mode{}
	for _, svc := range s.of.Config().Services {
		_, set := byHand[svc.Name]
		all[svc.Name] = Mode{svc.Mode, configured[svc.Name], set}
	}
	return all, nil
}

// answerModes answers with all modes, or with the mode of one service.
func (s *Server) answerModes(w http.ResponseWriter, service string) {
	all, err := s.modesNow()
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	if service == "" {
		answer(w, all)
		return
	}
	answer(w, all[service])
}

func (s *Server) setMode(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Mode config.Mode `json:"mode"`
	}
	if err := decode(r, &body); err != nil {
		refuseBody(w, err)
		return
	}
	words := modeWords()
	if !slices.Contains(words, string(body.Mode)) {
		refuse(w, http.StatusBadRequest, fmt.Errorf("mode %q is not known; use one of %s", body.Mode, strings.Join(words, ", ")))
		return
	}
	s.changeMode(w, r, func(m instance.Modes, service string) { m[service] = body.Mode })
}

func (s *Server) unsetMode(w http.ResponseWriter, r *http.Request) {
	s.changeMode(w, r, func(m instance.Modes, service string) { delete(m, service) })
}

// modeWords returns the modes that the table of fields has.
func modeWords() []string {
	fields := config.Fields()
	return fields[slices.IndexFunc(fields, func(f config.Field) bool { return f.Name == "services.mode" })].Words
}

// changeMode writes the modes, reloads, and restores the old modes if the reload is refused.
func (s *Server) changeMode(w http.ResponseWriter, r *http.Request, change func(m instance.Modes, service string)) {
	service := r.PathValue("service")
	if !slices.ContainsFunc(s.of.Config().Services, func(svc config.Service) bool { return svc.Name == service }) {
		refuse(w, http.StatusNotFound, fmt.Errorf("no service %q; GET /v1/services lists them", service))
		return
	}
	s.modes.Lock()
	defer s.modes.Unlock()
	before, err := instance.ReadModes(s.opt.StateDir, s.name)
	if err == nil {
		next := instance.Modes{}
		for k, v := range before {
			next[k] = v
		}
		change(next, service)
		err = instance.WriteModes(s.opt.StateDir, s.name, next)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadTime) // half a change is worse than none
		defer cancel()
		if _, err = s.of.Reload(ctx); err != nil {
			if back := instance.WriteModes(s.opt.StateDir, s.name, before); back != nil {
				err = fmt.Errorf("%w; and the mode was not taken back: %w", err, back)
			}
		}
	}
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	s.forget()
	s.answerModes(w, service)
}

// forget drops the shared status, so that the next one is read afresh.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), reloadTime)
	defer cancel()
	changed, err := s.of.Reload(ctx)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	s.forget()
	answer(w, map[string][]string{"changed": orEmpty(changed)})
}

// Change is one difference between the configuration on disk and the one in force.
type Change = config.Change

func (s *Server) diff(w http.ResponseWriter, _ *http.Request) {
	next, err := s.opt.Load()
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	answer(w, orEmpty(config.Diff(s.of.Config(), next)))
}

// events writes the events that are kept, and with follow later ones too. A follower that does not read a line in time is disconnected.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("after=%s is not a number", text))
			return
		}
	}
	follow := r.URL.Query().Get("follow") == "1"
	if follow {
		select {
		case s.following <- struct{}{}:
			defer func() { <-s.following }()
		default:
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d follow already; ask without follow=1", followMax))
			return
		}
	}
	changes, done := s.of.Events().Watch()
	defer done()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, enc := http.NewResponseController(w), json.NewEncoder(w)
	_ = out.SetReadDeadline(time.Time{})
	for {
		list, last := s.of.Events().After(after)
		_ = out.SetWriteDeadline(time.Now().Add(lineTime))
		for i := range list {
			if enc.Encode(&list[i]) != nil {
				return
			}
		}
		if after = max(after, last); !follow {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-changes:
		case <-r.Context().Done():
			return
		}
	}
}
