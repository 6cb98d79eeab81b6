// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Row is when those concerned knew of an event.
type Row struct {
	Event string    `json:"event"`
	At    float64   `json:"at_s"` // since the clients began
	Who   string    `json:"who"`  // nodes, routers
	When  Spread    `json:"when"`
	Each  []float64 `json:"each_ms"`
}

// Result is what the lab has seen.
type Result struct {
	Gates    int            `json:"gates"`
	Servers  int            `json:"nats_servers"`
	Routers  int            `json:"routers"`
	Rate     float64        `json:"syns_per_s"` // sent, all gates together
	SYNs     uint64         `json:"syns"`
	Kernel   string         `json:"kernel"`
	CPU      string         `json:"cpu"`
	Cores    int            `json:"cores"`
	Rows     []Row          `json:"rows"`
	Requests int            `json:"requests"`
	Served   int            `json:"served"`
	Errors   map[string]int `json:"errors,omitempty"`
	Upgraded string         `json:"upgraded"` // gate1's version, before and after
}

// Passed reports whether everybody knew everything in time and every request was served.
func (r *Result) Passed() bool {
	return r.Served == r.Requests && r.Requests > 0 && !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.When.Known != row.When.All })
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d gates, %d NATS servers, %d routers, %.0f SYN/s over all gates; %d cores of %s, Linux %s\n\n", r.Gates, r.Servers, r.Routers, r.Rate, r.Cores, r.CPU, r.Kernel)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "AT s\tFIRST ms\tMEDIAN ms\tLAST ms\tKNOW\t  EVENT, WHO\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%.1f\t%.0f\t%.0f\t%.0f\t%d/%d\t  %s\t\n", row.At, row.When.First, row.When.Median, row.When.Last, row.When.Known, row.When.All, row.Event+": "+row.Who)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ngate1 was upgraded: %s\n", r.Upgraded)
	share := 0.0
	if r.Requests > 0 {
		share = 100 * float64(r.Served) / float64(r.Requests)
	}
	_, err := fmt.Fprintf(w, "legitimate requests served: %d of %d (%.4g %%)%s\n", r.Served, r.Requests, share, failures(r.Errors))
	return err
}

func failures(errs map[string]int) string {
	if len(errs) == 0 {
		return ""
	}
	return fmt.Sprintf("; failed: %v", errs)
}
