// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"testing"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

// A published port of a container has no listener here, and an MPTCP listener is translated: neither is an error.
func TestCorrected(t *testing.T) {
	row := func(name, found string) Check {
		return Check{Name: "service " + name, Status: Warn, Found: found, Means: "m", Fix: "f"}
	}
	golang := serviceCheck(config.Service{Name: "go", Mode: config.ModeAlways}, listeners.Report{Status: listeners.MPTCP,
		Listeners: []listeners.Listener{{Addr: netip.IPv4Unspecified(), Port: 80, MPTCP: true}}})
	for _, translates := range []bool{true, false} {
		r := &Report{OK: true}
		r.add(row("web", nothingListens), row("mail", nothingListens), golang)
		r.correct([]Takeover{{Service: "web"}, {Service: "go"}}, translates)
		want(t, r.Checks[0], OK, "send it elsewhere")
		want(t, r.Checks[1], Warn, nothingListens)
		if translates {
			want(t, r.Checks[2], OK, "translated")
		} else {
			want(t, r.Checks[2], Warn, "MPTCP listener: 0.0.0.0:80")
		}
		if left := map[bool]int{true: 1, false: 2}[translates]; r.Warnings != left {
			t.Errorf("%d warnings, want %d", r.Warnings, left)
		}
	}
}
