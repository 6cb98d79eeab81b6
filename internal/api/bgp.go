// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/routers"
)

// Routers is what announces to routers.
type Routers interface {
	State() routers.State
	Announce(r routers.Route, until time.Time, why string) (routers.Announcement, error)
	Withdraw(r routers.Route) (routers.Announcement, error)
}

// BGPRoute is a route to announce or to withdraw by hand.
type BGPRoute struct {
	Kind   routers.Kind `json:"kind"`
	Prefix string       `json:"prefix"`
	To     string       `json:"to,omitempty"`
	Until  *time.Time   `json:"until,omitempty"` // none: bgp.expires from now
	Why    string       `json:"why,omitempty"`
}

var errNoBGP = errors.New("this instance announces nothing; its configuration has no `bgp` (docs/routers.md)")

const maxWhy = 200

func (b *BGPRoute) route() (r routers.Route, err error) {
	r.Kind = b.Kind
	if r.Prefix, err = parsePrefix(b.Prefix); err == nil && b.To != "" {
		r.To, err = parsePrefix(b.To)
	}
	switch {
	case err != nil:
	case (r.Kind == routers.Flow) != r.To.IsValid():
		err = errors.New("a route of kind flow has `to`, and no other has")
	case len(b.Why) > maxWhy || strings.ContainsAny(b.Why, "\n\r"):
		err = errors.New("`why` is one line of at most 200 bytes")
	}
	return r, err
}

// parsePrefix reads a prefix or an address.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

func (s *Server) bgp(w http.ResponseWriter, _ *http.Request) {
	if of := s.of.Routers(); of != nil {
		answer(w, of.State())
		return
	}
	refuse(w, http.StatusConflict, errNoBGP)
}

func (s *Server) announce(w http.ResponseWriter, r *http.Request) {
	of := s.of.Routers()
	if of == nil {
		refuse(w, http.StatusConflict, errNoBGP)
		return
	}
	var body BGPRoute
	if err := decode(r, &body); err != nil {
		refuseBody(w, err)
		return
	}
	route, err := body.route()
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	var until time.Time
	if body.Until != nil {
		until = *body.Until
	}
	a, err := of.Announce(route, until, body.Why)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	s.forget()
	answer(w, a)
}

func (s *Server) withdraw(w http.ResponseWriter, r *http.Request) {
	of := s.of.Routers()
	if of == nil {
		refuse(w, http.StatusConflict, errNoBGP)
		return
	}
	q := r.URL.Query()
	body := BGPRoute{Kind: routers.Kind(q.Get("kind")), Prefix: q.Get("prefix"), To: q.Get("to")}
	route, err := body.route()
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	a, err := of.Withdraw(route)
	if err != nil {
		refuse(w, http.StatusConflict, err)
		return
	}
	s.forget()
	answer(w, a)
}
