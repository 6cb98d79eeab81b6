// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/status"
)

// printP4Status is a switch, and the table of its services.
func printP4Status(w io.Writer, st *status.Status) error {
	p := st.P4
	fmt.Fprintf(w, "switch at %s: %s, since %s", p.Thrift, p.Program, p.Since.Format(time.RFC3339))
	if p.Restarts > 0 {
		fmt.Fprintf(w, ", restarted %d times", p.Restarts)
	}
	fmt.Fprintln(w)
	if p.Why != "" {
		fmt.Fprintf(w, "THE SWITCH DOES NOT ANSWER: %s\n", p.Why)
		return nil
	}
	if p.Program != "edge" {
		fmt.Fprintf(w, "table: %d entries made of digests\n", p.Entries)
	}
	if m := p.MACs; m.Limit > 0 {
		fmt.Fprintf(w, "addresses: %d outside, %d inside, at most %d of each; %d learned, %d moved, %d aged, %d not learned for want of room, %d not believed\n",
			m.Outside, m.Inside, m.Limit, m.Learned, m.Moved, m.Aged, m.Full, m.Refused)
	}
	fmt.Fprintln(w)
	if st.Edge != nil {
		return printEdgeStatus(w, st)
	}
	if st.Role == config.RoleEdge { // its filter was not read yet
		return printEdgeServices(w, st)
	}
	return printProxyStatus(w, st)
}
