// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"time"

	"tidegate/internal/event"
	"tidegate/internal/routers"
)

// CanProtect says whether this gate can protect what is sent to it, for anycast, and if not, why. Nothing that packets can
// cause is among the reasons: otherwise an attacker could move a service's traffic from gate to gate, to the last.
func (st *Status) CanProtect(now time.Time) (ok bool, why string) {
	switch {
	case st.Draining:
		return false, "it is being taken down"
	case !now.Before(st.KeysUntil):
		return false, "its keys have ended"
	case st.P4 != nil && !st.P4.Answers:
		return false, "the switch does not answer"
	}
	for name, why := range st.Detached {
		return false, fmt.Sprintf("not attached to %s: %s", name, why)
	}
	return true, ""
}

// routerConditions are those of BGP.
func routerConditions(r *routers.State) (list []event.Condition) {
	if r == nil {
		return nil
	}
	if !r.Running {
		list = append(list, event.Condition{Name: CondBGPDown, Message: "tidegate-bgp does not run: nothing is announced; it is started again, see the log"})
	} else {
		for _, s := range r.Sessions {
			if s.Up {
				continue
			}
			why := "see its log, and that of tidegate-bgp here"
			if s.Why != "" {
				why = s.Why
			}
			list = append(list, event.Condition{Name: CondBGPDown, Subject: s.Address.String(),
				Message: fmt.Sprintf("no BGP session with %s: nothing is announced there: %s", s.Address, why)})
		}
	}
	if r.Error != "" {
		list = append(list, event.Condition{Name: CondBGPDown, Subject: "routes", Message: "a route cannot be announced: " + r.Error})
	}
	if s := r.Service; s != nil && !s.Announced {
		list = append(list, event.Condition{Name: CondServiceWithdrawn, Message: "prefixes of services are not announced: " + s.Why,
			Detail: map[string]string{"prefixes": fmt.Sprint(s.Prefixes)}})
	}
	return list
}

// routerMetrics are those of BGP.
func routerMetrics(m *series, r *routers.State) {
	if r == nil {
		return
	}
	for _, s := range r.Sessions {
		peer := pair{"peer", s.Address.String()}
		m.gauge("bgp_session_up", "1 if the BGP session with this router is established", number(r.Running && s.Up), peer)
		m.counter("bgp_session_flaps", "times that the BGP session with this router went down", s.Flaps, peer)
	}
	by := map[routers.Kind]int{}
	for _, a := range r.Routes {
		by[a.Kind]++
	}
	for _, kind := range routers.Kinds() {
		m.gauge("bgp_routes", "routes that discard, by kind", float64(by[kind]), pair{"kind", string(kind)})
	}
	if s := r.Service; s != nil {
		m.gauge("bgp_service_announced", "1 while the prefixes of services are announced", number(s.Announced))
	}
	m.counter("bgp_offences_refused", "times that an offender was not announced because bgp.max or bgp.per_minute was reached", r.Refused)
	m.counter("bgp_offences_spared", "times that an offender was not announced because it is own, in bgp.never, or was withdrawn by hand", r.Spared)
}
