// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is the result of a run.
type Report struct {
	Kernel  string   `json:"kernel"`
	CPU     string   `json:"cpu"`
	Clients int      `json:"clients"` // of each family, in each column
	Rate    float64  `json:"syns_per_second"`
	Rows    []Row    `json:"rows"`
	InQEMU  []string `json:"elsewhere"`
}

// Expected is what a row must show.
type Expected struct {
	How    How `json:"how"`
	Served int `json:"served"`
}

// Row is the result of one machine.
type Row struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Canary   bool     `json:"canary,omitempty"` // must fail
	Expected Expected `json:"expected"`
	Families []Family `json:"families"`
	OK       bool     `json:"ok"`
	Unbuilt  string   `json:"unbuilt,omitempty"` // why this kernel cannot build the machine
	Wrong    []string `json:"wrong,omitempty"`   // what is not as expected
	Why      []string `json:"why,omitempty"`     // what tidegate reports about its listeners, if something is wrong
	Rules    string   `json:"rules,omitempty"`   // likewise: the firewall
}

// Family is what clients of one family saw, and what tidegate did.
type Family struct {
	IPv6        bool    `json:"ipv6"`
	Without     Seen    `json:"without"`
	Quiet       Seen    `json:"quiet"`
	Flood       Seen    `json:"flood"`
	QuietTaken  Taken   `json:"quiet_taken"`
	FloodTaken  Taken   `json:"flood_taken"`
	SYNs        uint64  `json:"syns"`      // that arrived, including the clients'
	HalfOpen    int     `json:"half_open"` // at the end of the flood
	BulkWithout Goodput `json:"bulk_without,omitzero"`
	Bulk        Goodput `json:"bulk,omitzero"`
}

// Goodput is what one connection carried, in Gbit/s.
type Goodput struct {
	Up   float64 `json:"up_gbps"`
	Down float64 `json:"down_gbps"`
}

// how returns how most connections were taken over.
func (t Taken) how() How {
	switch {
	case t.Adopted == 0 && t.Translated == 0:
		return Left
	case t.Adopted >= t.Translated:
		return Adopted
	}
	return Translated
}

// protected reports whether the flood was answered with cookies and not by the kernel, but for what an allowance leaves to it.
func (f Family) protected() bool {
	return f.FloodTaken.Cookies >= f.SYNs/2 && f.HalfOpen < halfOpenMost+int(f.FloodTaken.Left)
}

// halfOpenMost is the maximum of half-open connections in a kernel that hardly sees the flood.
const halfOpenMost = 128

// judge compares the row with what is expected; meetsFlood is false if the flood cannot reach the gate.
func (r *Row) judge(s Scenario, meetsFlood bool) {
	for _, f := range r.Families {
		name := familyName(f.IPv6)
		wrong := func(format string, args ...any) {
			r.Wrong = append(r.Wrong, name+": "+fmt.Sprintf(format, args...))
		}
		for _, c := range []struct {
			column string
			seen   Seen
		}{{"without", f.Without}, {"quiet", f.Quiet}, {"flood", f.Flood}} {
			if c.seen.Served != r.Expected.Served {
				wrong("%s: %d of %d served, want %d (%s)", c.column, c.seen.Served, c.seen.Clients, r.Expected.Served, c.seen.Failure)
			}
			if c.seen.Served > 0 && f.Without.Served > 0 && !slices.Equal(c.seen.Sources, f.Without.Sources) {
				wrong("%s: the server sees the clients' addresses as %v, and without tidegate as %v", c.column, c.seen.Sources, f.Without.Sources)
			}
		}
		for _, c := range []struct {
			column string
			taken  Taken
			seen   Seen
		}{{"quiet", f.QuietTaken, f.Quiet}, {"flood", f.FloodTaken, f.Flood}} {
			if s.KernelFirst {
				n := c.taken.Adopted + c.taken.Translated
				if n+c.taken.Left < uint64(c.seen.Served) || c.column == "flood" && n == 0 { // how many find room in the allowance depends on how fast this machine floods
					wrong("%s: %d taken over, %d left to the kernel, %d served", c.column, n, c.taken.Left, c.seen.Served)
				}
				continue
			}
			if how := c.taken.how(); c.seen.Served > 0 && how != s.How {
				wrong("%s: connections are taken over by %s, want %s", c.column, how, s.How)
			}
			if n := c.taken.Adopted + c.taken.Translated; s.How != Left && n < uint64(c.seen.Served) {
				wrong("%s: %d connections taken over, %d served", c.column, n, c.seen.Served)
			}
		}
		if s.How != Left && meetsFlood && !f.protected() {
			wrong("not protected: %d of %d SYNs met a cookie, %d half-open", f.FloodTaken.Cookies, f.SYNs, f.HalfOpen)
		}
	}
}

func familyName(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Failed returns the names of the rows that are not as expected.
func (r *Report) Failed() (names []string) {
	for _, row := range r.Rows {
		if !row.OK {
			names = append(names, row.Name)
		}
	}
	return names
}

// columns returns the counts of one family as text: served without, quiet, under the flood.
func (f Family) columns() string {
	return fmt.Sprintf("%d %d %d", f.Without.Served, f.Quiet.Served, f.Flood.Served)
}

func (r *Row) line() string {
	verdict := "ok"
	switch {
	case r.Unbuilt != "":
		verdict = "not built: " + r.Unbuilt
	case r.Canary && r.OK:
		verdict = "ok: wrong, as it must be"
	case r.Canary:
		verdict = "FAILED: the canary passed"
	case !r.OK:
		verdict = "FAILED: " + strings.Join(r.Wrong, "; ")
	}
	return r.Name + ": " + verdict
}

// Print writes the table.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "Linux %s; %d clients of each family in each column; flood: %.0f SYNs a second\n\n", r.Kernel, r.Clients, r.Rate)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "machine\texpected\tIPv4: without quiet flood\tIPv6: without quiet flood\tseen\t")
	for _, row := range r.Rows {
		cells := []string{"-", "-"}
		how, protected := "-", false
		for i, f := range row.Families {
			cells[i], how, protected = f.columns(), string(f.QuietTaken.how()), f.protected()
		}
		if protected {
			how += ", protected"
		}
		verdict := ""
		switch {
		case row.Unbuilt != "":
			verdict = "not built: " + row.Unbuilt
		case row.Canary && row.OK:
			verdict = "canary: wrong, as it must be"
		case !row.OK:
			verdict = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%d, %s\t%s\t%s\t%s\t%s\n", row.Name, row.Expected.Served, row.Expected.How, cells[0], cells[1], how, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.printBulk(w)
	for _, e := range r.InQEMU {
		fmt.Fprintf(w, "\nelsewhere: %s\n", e)
	}
	for _, row := range r.Rows {
		if row.OK {
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", row.Name, row.About)
		for _, line := range append(row.Wrong, row.Why...) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	built := 0
	for _, row := range r.Rows {
		if row.Unbuilt == "" {
			built++
		}
	}
	_, err := fmt.Fprintf(w, "\n%d of %d machines as expected, %d more cannot be built on this kernel\n", built-len(r.Failed()), built, len(r.Rows)-built)
	return err
}

// printBulk writes the goodput, and its ratio to the goodput without tidegate.
func (r *Report) printBulk(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "\ngoodput of one connection, Gbit/s: without, with tidegate, ratio\n"
	for _, row := range r.Rows {
		for _, f := range row.Families {
			if f.BulkWithout.Up == 0 {
				continue
			}
			fmt.Fprint(w, head)
			head = ""
			fmt.Fprintf(t, "%s\t%s\tup %.2f %.2f\t%.2f\tdown %.2f %.2f\t%.2f\n", row.Name, familyName(f.IPv6), f.BulkWithout.Up, f.Bulk.Up,
				f.Bulk.Up/f.BulkWithout.Up, f.BulkWithout.Down, f.Bulk.Down, f.Bulk.Down/f.BulkWithout.Down)
		}
	}
	_ = t.Flush()
}
