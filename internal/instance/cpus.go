// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"os"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// OnlineCPUs counts the processors that may run the packet path; allowances are divided
// among them.
func OnlineCPUs() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 1
	}
	return CountCPUs(string(text))
}

// CountCPUs counts those of a list such as 0-2,5; 1 if it is invalid.
func CountCPUs(list string) (n int) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			return 1
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil {
				return 1
			}
		}
		n += b - a + 1
	}
	return max(n, 1)
}

// SignedCost is the packet path's setting for a service's signed SYNs, when this many
// processors share the allowance: signed_cost_us of core/service.h.
func SignedCost(svc *config.Service, cpus int) uint32 {
	switch svc.SignedSYNs {
	case config.SignedDrop:
		return plane.SignedDrop
	case config.SignedPass:
		rate := uint64(svc.SignedRate)
		cost := (1_000_000*uint64(cpus) + rate - 1) / rate // rounded up: never more than configured
		return uint32(min(max(cost, 1), plane.SignedDrop-1))
	}
	return plane.SignedAnswer
}

// SetSynackLimit makes the packet path limit the SYN-ACKs to one source prefix.
func SetSynackLimit(c *config.Config, s *plane.Settings) {
	s.SynackCostNs = 0
	if limit := uint64(c.SynackLimit); limit > 0 {
		s.SynackCostNs = (uint64(time.Second)*uint64(OnlineCPUs()) + limit - 1) / limit // rounded up: never more than configured
	}
}

// SetSourceLimits makes the packet path limit the connections that one source begins and holds.
func SetSourceLimits(l *config.SourceLimits, s *plane.Settings) {
	s.SourceLimited, s.LimitCostNs, s.LimitHeld = Flag(l.On()), 0, uint32(l.Concurrent)
	if !l.On() {
		return
	}
	if rate := uint64(l.NewPerSecond); rate > 0 {
		s.LimitCostNs = (uint64(time.Second) + rate - 1) / rate // rounded up: never more than configured
	}
	s.LimitAction, s.LimitV4, s.LimitV6 = schema.LimitNumber(string(l.Action)), uint8(l.PrefixV4), uint8(l.PrefixV6)
}
