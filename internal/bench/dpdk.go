// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"text/tabwriter"

	"tidegate/internal/dpdk"
	"tidegate/internal/version"
)

// DPDKResult is one run of `tidegate-lab bench --role dpdk`: what tidegate-dpdk-bench has
// measured, and where. Frames are received from and sent to memory; what that costs
// is what `macswap` shows, which does nothing else.
type DPDKResult struct {
	Version   string `json:"version"`
	Kernel    string `json:"kernel"`
	CPU       string `json:"cpu"`
	DPDK      string `json:"dpdk"`
	Hash      string `json:"hash"` // the variant that was chosen
	Rounds    int    `json:"rounds"`
	Burst     int    `json:"burst"`
	Flows     int    `json:"flows"`
	HugePages bool   `json:"huge_pages"`

	MppsPerCore            map[string]Spread            `json:"mpps_per_core"`
	CookieOverMacswap      Spread                       `json:"cookie_over_macswap"`
	CookieOverAuthFull     Spread                       `json:"cookie_over_auth_full"`
	AuthCookieOverAuthFull Spread                       `json:"auth_cookie_over_auth_full"`
	AutoOverOff            map[string]Spread            `json:"auto_over_off"` // what mode auto costs where it answers nothing: syn, segment
	Batch                  map[string]map[string]Spread `json:"batch"`         // by strategy and frames in a burst
	Cores                  map[string]map[string]Spread `json:"cores"`         // by strategy: 1, 2, two_over_one
	HashNs                 map[string]Spread            `json:"hash_ns"`       // one SipHash-2-4 of an IPv4 cookie, by variant
}

// RunDPDK measures the plane on DPDK once. The two-core figure needs two cores;
// nothing else is needed: no root, no huge pages, no network card.
func RunDPDK(ctx context.Context, opt Options) (*DPDKResult, error) {
	program, err := dpdk.Find("tidegate-dpdk-bench")
	if err != nil {
		return nil, err
	}
	if opt.Progress != nil {
		opt.Progress("measuring in memory, %d rounds", opt.Rounds)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "--rounds", fmt.Sprint(opt.Rounds), "--slice-ms", "20")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(errs.Bytes()))
	}
	res := &DPDKResult{Version: version.Version, Kernel: kernelRelease(), CPU: cpuModel()}
	if err := json.Unmarshal(out.Bytes(), res); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return res, nil
}

// The paths of a frame, in the order of the paper's figures.
var dpdkKinds = []string{"macswap", "auth-full", "auth-cookie", "cookie", "cookie-card", "cookie-turns", "cookie-net", "cookie-spread", "cookie-v6", "auth-full-v6", "cache", "cache-keep", "forward", "translate", "off-syn", "auto-syn", "off-segment", "auto-segment"}

var dpdkBursts = []int{1, 2, 4, 8, 16, 32, 64, 128}

// Print writes the result as tables.
func (r *DPDKResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "tidegate %s, %s, %s\nin memory, bursts of %d, ordinary pages; %d rounds; median [min .. max]\n\n",
		r.Version, r.DPDK, r.CPU, r.Burst, r.Rounds)
	fmt.Fprintln(t, "SIPHASH-2-4\tns A HASH")
	for _, variant := range []string{"scalar", "avx2", "avx512"} {
		if s, ok := r.HashNs[variant]; ok {
			fmt.Fprintf(t, "%s\t%s\n", variant, s)
		}
	}
	fmt.Fprintln(t, "\nONE CORE\tMpps")
	for _, k := range dpdkKinds {
		if s, ok := r.MppsPerCore[k]; ok {
			fmt.Fprintf(t, "%s\t%s\n", k, s)
		}
	}
	fmt.Fprintf(t, "cookie / macswap\t%s\ncookie / auth-full\t%s\nauth-cookie / auth-full\t%s\n",
		r.CookieOverMacswap, r.CookieOverAuthFull, r.AuthCookieOverAuthFull)
	for _, what := range []string{"syn", "segment"} {
		if s, ok := r.AutoOverOff[what]; ok {
			fmt.Fprintf(t, "auto / off, %s\t%s\n", what, s)
		}
	}
	fmt.Fprint(t, "\nBURST OF")
	for _, n := range dpdkBursts {
		fmt.Fprintf(t, "\t%d", n)
	}
	for _, k := range dpdkKinds {
		if row, ok := r.Batch[k]; ok {
			fmt.Fprintf(t, "\n%s", k)
			for _, n := range dpdkBursts {
				fmt.Fprintf(t, "\t%.1f", row[fmt.Sprint(n)].Median)
			}
		}
	}
	fmt.Fprintln(t, "\n\nCORES\t1\t2\tTWO / ONE")
	for _, k := range dpdkKinds {
		if row, ok := r.Cores[k]; ok {
			fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%s\n", k, row["1"].Median, row["2"].Median, row["two_over_one"])
		}
	}
	if r.Cores == nil {
		fmt.Fprintln(t, "this machine has one core")
	}
	return t.Flush()
}
