// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"tidegate/internal/status"
)

// printEdgeStatus is the filter and the table of an edge's services.
func printEdgeStatus(w io.Writer, st *status.Status) error {
	e := st.Edge
	fmt.Fprintf(w, "filter: false positives %.4f %% computed, %.4f %% measured (%d probes)", 100*e.FPComputed, 100*e.FPMeasured, e.Probes)
	if e.Alarm {
		fmt.Fprint(w, "; ALARM: saturated, that share of unknown ACKs goes on to the servers")
	}
	if e.Learning {
		fmt.Fprint(w, "; learning: what it does not know goes on to the servers")
	}
	fmt.Fprint(w, "\ngenerations:")
	for _, g := range e.Generations {
		mark := ""
		if g.Active {
			mark = " (active)"
		}
		fmt.Fprintf(w, "  %.2f %% full, %d flows%s", 100*g.Fill, g.Flows, mark)
	}
	if e.ClosedPorts > 0 {
		fmt.Fprintf(w, "\nclosed ports: %d addresses and ports where servers refuse; SYNs go to them within an allowance", e.ClosedPorts)
	}
	fmt.Fprint(w, "\n\n")
	return printEdgeServices(w, st)
}

// printEdgeServices is the table alone, and the other counters.
func printEdgeServices(w io.Writer, st *status.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tMODE\tSYN\tCOOKIES\tVERIFIED\tKNOWN\tUNKNOWN\tREFRESHED\tDROPPED")
	for _, s := range st.Services {
		c := s.Counters
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Mode, c["syn"], c["cookie_sent"], c["cookie_valid"],
			c["edge_known"], c["edge_unknown"]+c["edge_learning"], c["edge_refreshed"], sumPrefix(c, "drop_"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printReasons(w, st)
}
