// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/adopt"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// Degraded is a listener whose SYNs go to the kernel, unprotected.
type Degraded struct {
	Listener netip.AddrPort `json:"listener"`
	Reason   string         `json:"reason"`              // "mptcp", "refused", or "syncookies"
	PausedMs int64          `json:"paused_ms,omitempty"` // of "refused": until adoption is tried again; 0: at the next SYN
	Refusals int            `json:"refusals,omitempty"`  // likewise: in a row
}

// Explain gives the reason, and a remedy.
func (d Degraded) Explain() string {
	if d.Reason == adopt.ReasonRefused {
		return fmt.Sprintf("the kernel has refused %d adoptions in a row; tried again in %v", d.Refusals,
			time.Duration(d.PausedMs)*time.Millisecond)
	}
	return d.Cure()
}

// Cure is the remedy without figures, which change all the time.
func (d *Degraded) Cure() string {
	switch d.Reason {
	case adopt.ReasonMPTCP:
		return "the kernel does not adopt for it, as it is MPTCP, or bound to a device above the interface; set `takeover: auto`, or let the server listen without MPTCP (GODEBUG=multipathtcp=0), bound to the interface or to none"
	case adopt.ReasonSyncookies:
		return "net.ipv4.tcp_syncookies is 0, so the kernel adopts no connection; set it to 1"
	}
	return "the kernel refuses adoptions, for no reason that can be seen; they are tried again after a pause; see `tidegate check -c`"
}

// listenersOf sums up, from the packet path's notes, the listeners of a service: "ok",
// "none", "mptcp" or "refused" if that is so of every listener, else "degraded".
func listenersOf(svc *instance.StateService, entry plane.Service, notes map[netip.AddrPort]plane.ListenerNote) (summary string, lost []Degraded) {
	if notes == nil { // of a gate that adopts nothing
		return "ok", nil
	}
	total := 0
	for place, note := range notes {
		if !adopt.ServesPlace(svc.Prefixes, svc.Ports, place) {
			continue
		}
		total++
		d := Degraded{Listener: place}
		switch {
		case entry.ListenerV4 == plane.ListenerRefused && entry.ListenerV6 == plane.ListenerRefused:
			d.Reason = adopt.ReasonSyncookies
		case note.State == plane.ListenerMPTCP || note.Doubted() && note.Why == plane.RefusalMPTCP:
			d.Reason = adopt.ReasonMPTCP
		case note.Doubted():
			d.Reason, d.Refusals = adopt.ReasonRefused, note.Refusals
		default:
			continue
		}
		if d.Reason != adopt.ReasonSyncookies && note.State == plane.ListenerOK {
			d.PausedMs = max(0, (note.PausedUntilNs-plane.MonotonicNs())/int64(time.Millisecond))
		}
		lost = append(lost, d)
	}
	slices.SortFunc(lost, func(a, b Degraded) int {
		return cmp.Or(cmp.Compare(a.Listener.Port(), b.Listener.Port()), a.Listener.Addr().Compare(b.Listener.Addr()))
	})
	switch {
	case total == 0:
		return "none", nil
	case len(lost) == 0:
		return "ok", nil
	case len(lost) < total || slices.ContainsFunc(lost, func(d Degraded) bool { return d.Reason != lost[0].Reason }):
		return "degraded", lost
	case lost[0].Reason == adopt.ReasonMPTCP && lost[0].PausedMs == 0:
		return "mptcp", lost
	}
	return "refused", lost
}
