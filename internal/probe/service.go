// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"strings"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

const mendMPTCP = "make the server listen with plain TCP; for a Go program set GODEBUG=multipathtcp=0"

// namedServices is up to how many services each gets a row even when all is well.
const namedServices = 20

func serviceChecks(services []config.Service) []Check {
	all, err := listeners.Scan()
	if err != nil {
		return []Check{{Name: "listeners", Status: Warn, Found: firstLine(err),
			Means: "MPTCP listeners cannot be recognised", Fix: "run as root, on a kernel built with CONFIG_INET_TCP_DIAG"}}
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
		c.Status, c.Found = Warn, "nothing listens"
		c.Means, c.Fix = "its SYNs are left to the kernel, which refuses them", "start the server, or correct prefixes and ports"
	case r.Status == listeners.MPTCP:
		c.Status, c.Found = Warn, "MPTCP listener on "+some(r.MPTCP())
		c.Means = "MPTCP listeners cannot be adopted: their SYNs are left to the kernel, unprotected by tidegate"
		c.Fix = mendMPTCP
	default:
		c.Found = "listens on " + some(r.Listeners)
		if len(r.Missing) > 0 {
			c.Found += fmt.Sprintf("; nothing on port %s", ranges(r.Missing))
		}
	}
	return c
}

const shown = 3 // how many items of a list are written out

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
