// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/schema"
)

// printUpstreamStatus shows a patrol or a manager.
func printUpstreamStatus(w io.Writer, s *instance.Upstream) error {
	running := "running"
	switch {
	case s.Starting:
		running = "being started; what follows is of the process before"
	case s.Running:
	case s.Role == config.RolePatrol:
		running = "NOT running; programs and filters stay in force, new ones cannot be installed"
	default:
		running = "NOT running; filters that were asked for stay in force"
	}
	fmt.Fprintf(w, "instance %s (%s), version %s, pid %d, %s\n", s.Instance, s.Role, s.Version, s.PID, running)
	printRefusedReload(w, s.RefusedReload)
	for _, line := range [][2]string{{"listens at", s.Listen}, {"API", s.API}, {"interfaces", strings.Join(s.Ports, " ")}} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s: %s\n", line[0], line[1])
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nFIGURE\tVALUE\tat %s\n", s.At.Format(time.RFC3339))
	for _, name := range slices.Sorted(maps.Keys(s.Figures)) {
		fmt.Fprintf(t, "%s\t%d\t\n", name, s.Figures[name])
	}
	if len(s.Patrols) > 0 {
		fmt.Fprintln(t, "\nPATROL\tADDRESS\tCONNECTED")
		for _, p := range s.Patrols {
			up := "yes"
			if !p.Up {
				up = "NO; its filters stay in force"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", p.Name, p.Address, up)
		}
	}
	fmt.Fprintln(t, "\nCOUNTER\tCOUNT\tMEANING")
	help := map[string]string{}
	for i := range schema.NumCounters {
		help[schema.Counter(i).String()] = schema.Counter(i).Help()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Counters)) {
		if v := s.Counters[name]; v > 0 {
			fmt.Fprintf(t, "%s\t%d\t%s\n", name, v, help[name])
		}
	}
	return t.Flush()
}
