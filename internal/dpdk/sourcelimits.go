// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	hexpkg "encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/plane"
)

// Prefix names the program of an instance in DPDK's runtime directory.
func Prefix(instance string) string { return "tidegate-" + instance }

// LimitsLine is the line for source_limits, as plane.Settings has them.
func LimitsLine(s *plane.Settings) string {
	if s.SourceLimited == 0 {
		return "source-limits 0 0 32 64 0"
	}
	return fmt.Sprintf("source-limits %d %d %d %d %d", s.LimitCostNs, s.LimitHeld, s.LimitV4, s.LimitV6, s.LimitAction)
}

// RememberLine is the line for report_to and remember_sources, as plane.Settings has them.
func RememberLine(s *plane.Settings) string {
	return fmt.Sprintf("remember %d %d", s.Report, s.ReportDscp)
}

// ReadOverLimit asks a running program for the sources above source_limits, summed over all cores: as plane.ReadOverLimit.
func ReadOverLimit(prefix string) ([]plane.OverLimit, error) {
	var rows []plane.OverLimit
	for from := 0; ; {
		var page []string
		if err := Telemetry(prefix, fmt.Sprintf("/tidegate/over_limit,%d", from), &page); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return plane.SumOverLimit(rows), nil
		}
		now := plane.MonotonicNs()
		for _, text := range page {
			slot, row, err := parseOverLimit(text, now)
			if err != nil || slot < from {
				return nil, fmt.Errorf("sources above their limit, of tidegate-dpdk: %q cannot be read; are the two programs of one version?", text)
			}
			rows, from = append(rows, row), slot+1
		}
	}
}

// parseOverLimit reads "SLOT FAMILY PREFIX LENGTH DST OVER HELD FIRST LAST": of dpdk/daemon/telemetry.c.
func parseOverLimit(text string, now int64) (slot int, o plane.OverLimit, err error) {
	f := strings.Fields(text)
	if len(f) != 9 {
		return 0, o, strconv.ErrSyntax
	}
	var n [9]uint64
	for i := range f {
		if i == 2 || i == 4 {
			continue
		}
		if n[i], err = strconv.ParseUint(f[i], 10, 63); err != nil {
			return 0, o, err
		}
	}
	prefix, err1 := addrOf(n[1], f[2])
	dst, err2 := addrOf(n[1], f[4])
	if err1 != nil || err2 != nil || n[3] > uint64(prefix.BitLen()) {
		return 0, o, strconv.ErrSyntax
	}
	ago := func(ms uint64) int64 { return now - int64(ms)*int64(time.Millisecond) }
	return int(n[0]), plane.OverLimit{Prefix: netip.PrefixFrom(prefix, int(n[3])).Masked(), Dst: dst, Over: n[5], Held: n[6],
		FirstNs: ago(n[7]), LastNs: ago(n[8])}, nil
}

// addrOf is an address, or its first half.
func addrOf(family uint64, text string) (netip.Addr, error) {
	var raw [16]byte
	if _, err := hexpkg.Decode(raw[:], []byte(text)[:min(len(text), 2*len(raw))]); err != nil {
		return netip.Addr{}, err
	}
	switch family {
	case 4:
		return netip.AddrFrom4([4]byte(raw[:4])), nil
	case 6:
		return netip.AddrFrom16(raw), nil
	}
	return netip.Addr{}, strconv.ErrSyntax
}
