// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the result as tables.
func (r *Result) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, Linux %s, %s\n%s\n%d rounds; median [min .. max]\n\n", r.Version, r.Kernel, r.CPU, r.Pinning, r.Rounds)
	fmt.Fprintf(t, "SipHash-2-4 of 16 bytes in BPF on this core: %s ns\n\n", r.Spreads["siphash24_ns"])
	fmt.Fprintln(t, "SYN PATH\tDROP ns\tREFLECT ns\tHOST ns\tHOST ABOVE REFLECT ns")
	for _, k := range synKinds {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%s\n", k.name, r.NsTotal["drop-"+k.name], r.NsTotal["reflect-"+k.name],
			r.NsTotal["host-"+k.name], r.Spreads["ns_above_reflect host-"+k.name])
	}
	fmt.Fprintln(t, "\nSERVICES (any: one for every address)\tHOST ABOVE REFLECT ns")
	for _, n := range []string{"any", "1", "100", "10000"} {
		fmt.Fprintf(t, "%s\t%s\n", n, r.Spreads["ns_above_reflect services "+n])
	}
	fmt.Fprintln(t, "\nONE CORE\tSYN/s\tHOST IS TIMES AS FAST")
	for _, n := range []string{"drop", "reflect", "host", "kernel", "nft"} {
		ratio := "1"
		if n != "host" {
			ratio = r.Spreads["syn_pps_host_over "+n].String()
		}
		fmt.Fprintf(t, "%s\t%.0f\t%s\n", n, r.SynPpsOneCore[n], ratio)
	}
	fmt.Fprintf(t, "\nESTABLISHED FLOW\tns ABOVE PASS, A PACKET\n")
	for _, n := range []string{"xdp", "tc"} {
		fmt.Fprintf(t, "%s\t%s\n", n, r.Spreads["established_ns_above_pass "+n])
	}
	fmt.Fprintf(t, "\nGOODPUT\tGbit/s\tTIDEGATE IS TIMES THIS\n")
	fmt.Fprintf(t, "nothing attached\t%s\t%s\n", r.Spreads["goodput_gbps none"], r.Spreads["goodput_ratio_no_xdp"])
	fmt.Fprintf(t, "empty programs\t%s\t%s\n", r.Spreads["goodput_gbps empty"], r.Spreads["goodput_ratio"])
	fmt.Fprintf(t, "tidegate\t%s\t1\n", r.Spreads["goodput_gbps tidegate"])
	return t.Flush()
}

func (s Spread) String() string {
	return fmt.Sprintf("%.2f [%.2f .. %.2f]", s.Median, s.Min, s.Max)
}

// Print writes a table of the paths; Markdown writes the same for a page.
func (r *SpeedResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, Linux %s, %s\n", r.Version, r.Kernel, r.CPU)
	if r.SipHashNs != nil {
		fmt.Fprintf(t, "%d rounds; H is a SipHash-2-4 of 16 bytes in BPF: %s ns\n", r.Rounds, *r.SipHashNs)
	}
	fmt.Fprintln(t, "\nPATH\tFRAME\tINSTRUCTIONS\tHELPERS\tCALLS\tns ABOVE THE LEAST\tH")
	for i := range r.Paths {
		p := &r.Paths[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", p.Path, p.Frame, p.Instructions, p.Helpers, p.Calls, strings.Join(p.times(), "\t"))
	}
	for i := range r.Paths {
		if p := &r.Paths[i]; r.Lines > 0 {
			fmt.Fprintf(t, "\n%s, %s: the lines with the most instructions\n%s", p.Path, p.Frame, p.counted.Costliest(r.Lines))
		}
	}
	return t.Flush()
}

// Markdown writes the table of docs/speed.md.
func (r *SpeedResult) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Linux %s, %s", r.Kernel, r.CPU)
	columns := []string{"path", "frame", "instructions", "helpers", "calls"}
	if r.SipHashNs != nil {
		fmt.Fprintf(&b, "; %d rounds; H = %s ns", r.Rounds, *r.SipHashNs)
		columns = append(columns, "ns above the least", "H")
	}
	fmt.Fprintf(&b, ".\n\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for i := range r.Paths {
		p := &r.Paths[i]
		cells := append([]string{p.Path, p.Frame, fmt.Sprint(p.Instructions), fmt.Sprint(p.Helpers), fmt.Sprint(p.Calls)}, p.times()...)
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells[:len(columns)], " | "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// times are a path's time and its H, both empty if it was not timed.
func (p *SpeedPath) times() []string {
	if p.Ns == nil {
		return []string{"", ""}
	}
	return []string{fmt.Sprintf("%.0f [%.0f .. %.0f]", p.Ns.Median, p.Ns.Min, p.Ns.Max), fmt.Sprintf("%.1f", p.H)}
}
