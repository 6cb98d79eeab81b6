// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
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
