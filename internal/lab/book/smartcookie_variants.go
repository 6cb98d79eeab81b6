// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"math"
)

// The switch's rate is bounded by the bandwidth at which packets can come back into its pipeline:
// bandwidth / (recirculations x bits of the recirculated packet on the wire). docs/p4.md explains the numbers.
const (
	recirculation = 200e9 // bit/s, as the paper configured its switch
	paperHSHRate  = 136.9e6
	paperAESRate  = 52e6
	paperPasses   = 2 // of a HalfSipHash on the paper's switch
	portRate      = 100e9

	synFrame   = 60     // bytes of the smallest SYN with its Ethernet header
	synWire    = 24     // checksum, preamble and gap
	ourState   = 9 + 16 // bytes that our program adds to a packet that comes back
	ourPasses1 = 2      // of a HalfSipHash, Tofino 1
	ourPasses2 = 1      // Tofino 2
)

// Variant is one way to compute a cookie on a switch.
type Variant struct {
	Name           string  `json:"name"`
	Recirculations float64 `json:"recirculations"`
	Bytes          float64 `json:"bytes"` // of a packet that comes back, on the wire
	Rate           float64 `json:"syn_per_s"`
}

func variant(name string, recirculations, bytes float64) Variant {
	v := Variant{name, recirculations, bytes, 0}
	if recirculations == 0 { // nothing comes back: a port's own rate is the limit
		v.Rate = portRate / (8 * bytes)
	} else {
		v.Rate = recirculation / (recirculations * 8 * bytes)
	}
	return v
}

// smartVariants computes; it measures nothing.
func smartVariants(context.Context, Setting) (*Finding, error) {
	paperBytes := recirculation / (paperHSHRate * paperPasses * 8)
	aes := recirculation / (paperAESRate * 8 * paperBytes) // recirculations that the paper's rate stands for
	all := []Variant{
		variant("HalfSipHash, Tofino 1", ourPasses1, synFrame+ourState+synWire),
		variant("HalfSipHash, Tofino 2", ourPasses2, synFrame+ourState+synWire),
		variant("AES, Tofino 1", math.Round(aes), synFrame+ourState+synWire),
		variant("CRC, any Tofino, for each port of 100 Gbit/s", 0, synFrame+synWire),
	}
	f := &Finding{Data: all}
	const item = "figure 5, variants"
	million := func(v Variant) string {
		return fmt.Sprintf("%.1f M/s: %g recirculations of %g bytes", v.Rate/1e6, v.Recirculations, v.Bytes)
	}
	f.Lines = []Line{
		compare(item, all[0].Name, million(all[0]), fmt.Sprintf("136.9 M/s: 2 recirculations, so %.0f bytes", paperBytes), all[0].Rate >= paperHSHRate, "our recirculated packet carries 25 bytes of state"),
		beside(item, all[1].Name, million(all[1]), "\"even higher\" in the paper's outlook", "its longer pipeline needs one pass less"),
		beside(item, all[2].Name, million(all[2]), "52 M/s", fmt.Sprintf("the paper's rate stands for %.1f recirculations of its packet; we compute with %g of ours", aes, math.Round(aes))),
		compare(item, "HalfSipHash over AES, Tofino 1", fmt.Sprintf("%.1f times", all[0].Rate/all[2].Rate), "2.6 times", all[0].Rate/all[2].Rate >= 2.4, "recirculations are whole numbers"),
		beside(item, all[3].Name, fmt.Sprintf("%.1f M/s", all[3].Rate/1e6), "-", "a CRC needs no recirculation, and is no defence: whoever has seen one cookie can compute all others (the paper's appendix A)"),
	}
	return f, nil
}
