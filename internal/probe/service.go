// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

const mendListener = "set `takeover: auto`, or let the server listen without MPTCP (Go: GODEBUG=multipathtcp=0), bound to the interface or to none"

// namedServices is the number of services up to which each gets a row even without problems.
const namedServices = 20

func serviceChecks(services []config.Service, interfaces []string) []Check {
	all, err := listeners.On(interfaces)
	if err != nil {
		return []Check{{Name: "listeners", Status: Fail, Found: firstLine(err),
			Means: "a service whose listeners are not known is left to the kernel", Fix: "run `modprobe -a inet_diag tcp_diag`, or a kernel built with CONFIG_INET_TCP_DIAG"}}
	}
	var list []Check
	good := 0
	for _, s := range services {
		c := serviceCheck(s, listeners.State(all, s.Prefixes, s.Ports))
		if c.Status == OK && len(services) > namedServices {
			good++
			continue
		}
		list = append(list, c)
	}
	if good > 0 {
		list = append(list, Check{Name: "other services", Status: OK, Found: fmt.Sprintf("%d with listeners that can be adopted", good)})
	}
	return list
}

func serviceCheck(s config.Service, r listeners.Report) Check {
	c := Check{Name: "service " + s.Name, Status: OK}
	switch {
	case s.Mode == config.ModeOff:
		c.Found = "off"
	case r.Status == listeners.None:
		c.Status, c.Found = Warn, nothingListens
		c.Means, c.Fix = "its SYNs are left to the kernel, which refuses them", "start the server, or correct prefixes and ports"
	case r.Status == listeners.MPTCP || r.Status == listeners.Above:
		c.Status, c.Found = Warn, unfitListener(r)
		c.Means = "the kernel does not adopt for such listeners: their SYNs are left to the kernel, unprotected by tidegate"
		c.Fix = mendListener
	default:
		c.Found = "listens on " + some(r.Listeners)
		if len(r.Missing) > 0 {
			c.Found += fmt.Sprintf("; no listener here on port %s", ranges(r.Missing))
		}
	}
	return c
}

// correct changes rows of services by how their connections are taken over: a service without a listener here is fine if rules redirect
// its destination, to containers, say; and MPTCP listeners are fine if connections that cannot be adopted are translated.
func (r *Report) correct(found []Takeover, translates bool) {
	for i := range r.Checks {
		c := &r.Checks[i]
		if !slices.ContainsFunc(found, func(t Takeover) bool { return "service "+t.Service == c.Name }) {
			continue
		}
		switch {
		case c.Found == nothingListens:
			c.Found += " here; rules or BPF programs of this machine send it elsewhere"
		case translates && c.Fix == mendListener:
			c.Found += "; its connections are translated"
		default:
			continue
		}
		c.Status, c.Means, c.Fix = OK, "", ""
		r.Warnings--
	}
}

const (
	nothingListens = "nothing listens"
)

// unfitListener names the listeners that cannot be adopted, and what they are.
func unfitListener(r listeners.Report) string {
	var kinds []string
	for left := r.Unadoptable(); len(left) > 0; {
		kind := left[0].Unadoptable()
		other := func(l listeners.Listener) bool { return l.Unadoptable() != kind }
		kinds = append(kinds, kind+": "+some(slices.DeleteFunc(slices.Clone(left), other)))
		left = slices.DeleteFunc(left, func(l listeners.Listener) bool { return !other(l) })
	}
	return strings.Join(kinds, "; ")
}

const shown = 3 // how many items of a list are printed

func some(ls []listeners.Listener) string {
	words := make([]string, 0, shown+1)
	for i, l := range ls {
		if i == shown {
			words = append(words, fmt.Sprintf("%d more", len(ls)-shown))
			break
		}
		words = append(words, l.String())
	}
	return strings.Join(words, ", ")
}

func ranges(rs []config.PortRange) string {
	words := make([]string, 0, shown+1)
	for i, r := range rs {
		if i == shown {
			words = append(words, fmt.Sprintf("%d more ranges", len(rs)-shown))
			break
		}
		words = append(words, r.String())
	}
	return strings.Join(words, ", ")
}
