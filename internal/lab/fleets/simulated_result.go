// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Spread is when the first, the median and the last of many knew something, in milliseconds after it was done; Known of All did in time.
type Spread struct {
	First  float64 `json:"first_ms"`
	Median float64 `json:"median_ms"`
	Last   float64 `json:"last_ms"`
	Known  int     `json:"known"`
	All    int     `json:"all"`
}

func spread(all int, after []time.Duration) Spread {
	s := Spread{Known: len(after), All: all}
	if len(after) == 0 {
		return s
	}
	slices.Sort(after)
	ms := func(d time.Duration) float64 { return float64(d.Round(100*time.Microsecond)) / 1e6 }
	s.First, s.Median, s.Last = ms(after[0]), ms(after[len(after)/2]), ms(after[len(after)-1])
	return s
}

func (s Spread) String() string {
	if s.Known == 0 {
		return fmt.Sprintf("none of %d", s.All)
	}
	return fmt.Sprintf("first %.0f ms, median %.0f ms, last %.0f ms (%d of %d)", s.First, s.Median, s.Last, s.Known, s.All)
}

// Phase is what one part of a simulation cost.
type Phase struct {
	Name    string   `json:"name"`
	Seconds float64  `json:"seconds"`
	Servers []Server `json:"servers"`
	Own     float64  `json:"nodes_cpu"` // cores that the simulated nodes used, all together
	// Reports is how many reports the servers confirmed, and Errors what nodes complained of.
	Reports float64 `json:"reports_per_s"`
	Errors  int     `json:"errors"`
	Late    int     `json:"late"` // nodes whose last report was over 30 s old at the end
}

// Server is one server's part.
type Server struct {
	Messages float64 `json:"messages_per_s"` // in and out
	Memory   uint64  `json:"memory"`
	CPU      float64 `json:"cores"`
	Clients  int     `json:"connections"`
	Slow     uint64  `json:"slow_consumers"`
}

// Simulation is the result.
type Simulation struct {
	Nodes       int      `json:"nodes"`
	Connections int      `json:"connections,omitempty"` // over which all of them report; 0: each has its own
	Kernel      string   `json:"kernel"`
	CPU         string   `json:"cpu"`
	Cores       int      `json:"cores"`
	Loading     float64  `json:"servers_ready_s"` // from the start of the servers until JetStream answered
	Phases      []Phase  `json:"phases"`
	Revision    Spread   `json:"revision"`       // a new revision
	OneDead     Spread   `json:"one_dead"`       // a new revision directly after a server was killed
	Own         uint64   `json:"nodes_memory"`   // of the process of the nodes
	Said        []string `json:"said,omitempty"` // complaints of nodes, each kind once
}

// Print writes the result for people.
func (r *Simulation) Print(w io.Writer) error {
	how := ""
	if r.Connections > 0 {
		how = fmt.Sprintf(" over %d connections", r.Connections)
	}
	fmt.Fprintf(w, "%d nodes%s, three NATS servers, %d cores of %s, Linux %s\n", r.Nodes, how, r.Cores, r.CPU, r.Kernel)
	fmt.Fprintf(w, "servers ready after %.1f s; memory of all nodes together %d MiB\n\n", r.Loading, r.Own>>20)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PHASE\tSECONDS\tMESSAGES/S\tMEMORY MiB\tSERVERS' CORES\tNODES' CORES\tCONNECTIONS\tCOMPLAINTS\tLATE")
	for _, p := range r.Phases {
		var messages, memory, cpu, clients []string
		for _, s := range p.Servers {
			messages, memory = append(messages, fmt.Sprintf("%.0f", s.Messages)), append(memory, fmt.Sprint(s.Memory>>20))
			cpu, clients = append(cpu, fmt.Sprintf("%.2f", s.CPU)), append(clients, fmt.Sprint(s.Clients))
		}
		j := func(l []string) string { return strings.Join(l, " ") }
		fmt.Fprintf(t, "%s\t%.1f\t%s\t%s\t%s\t%.2f\t%s\t%d\t%d\n", p.Name, p.Seconds, j(messages), j(memory), j(cpu), p.Own, j(clients), p.Errors, p.Late)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nrevision to nodes:                  %v\n", r.Revision)
	fmt.Fprintf(w, "the same after a server was killed: %v\n", r.OneDead)
	for _, s := range r.Said {
		fmt.Fprintf(w, "%s\n", s)
	}
	return nil
}
