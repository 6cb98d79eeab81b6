// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"time"
)

// Limits of a proxy's tables. 96 bytes a flow, in two maps of which each can be
// full: the highest is 3 GiB.
const (
	minTable      = 1024
	maxTable      = 1 << 24
	maxCache      = 1 << 22 // 96 bytes each
	minSwapPeriod = time.Second
	maxSwapPeriod = 24 * time.Hour

	// RFC 5382, REQ-5: what translates connections may forget one that is idle after
	// this, for a host need not send keep-alives before two hours (RFC 1122).
	defaultProxyIdleTime = 2*time.Hour + 4*time.Minute
)

// proxy reads the fields of the top level that only a proxy has.
func (r *reader) proxy(c *Config, fs map[string]field) {
	if c.Role != RoleProxy {
		c.Proxy = Proxy{}
		return
	}
	p := &c.Proxy
	if f, there := fs["forwarding"]; there {
		if s, ok := r.word(f, string(ForwardRouter), string(ForwardBridge)); ok {
			p.Forwarding = Forwarding(s)
		}
	}
	if f, there := fs["fast_path"]; there {
		if s, ok := r.word(f, string(FastServices), string(FastAll)); ok {
			p.FastPath = FastPath(s)
		}
	}
	if f, there := fs["whitelist_v4"]; there {
		if s, ok := r.word(f, string(WhitelistHash), string(WhitelistBitmap)); ok {
			p.WhitelistV4 = WhitelistV4(s)
		}
	}
	if f, there := fs["swap_period"]; there {
		if d, ok := r.duration(f, minSwapPeriod, maxSwapPeriod); ok {
			p.SwapPeriod = d
		}
	}
	if f, there := fs["idle_time"]; there {
		if d, ok := r.duration(f, minSwapPeriod, maxIdleTime); ok {
			p.IdleTime = d
		}
	}
	for _, v := range []struct {
		name            string
		to              *int
		lowest, highest int
	}{
		{"max_flows", &p.MaxFlows, minTable, maxTable},
		{"max_sources", &p.MaxSources, minTable, maxTable},
		{"source_prefix_v6", &p.SourcePrefixV6, 16, 64},
		{"source_prefix_v4", &p.SourcePrefixV4, 8, 32},
		{"cache_entries", &p.CacheEntries, minTable, maxCache},
	} {
		if f, there := fs[v.name]; there {
			if n, ok := r.number(f, v.lowest, v.highest); ok {
				*v.to = n
			}
		}
	}
	r.dpdk(c, fs)
	if f, there := fs["interfaces"]; there && p.Forwarding == ForwardBridge && len(c.Interfaces) != 2 {
		r.fail(f.line, f.path, "a bridge has two ports, and %d are named; name two, or use forwarding: router", len(c.Interfaces))
	}
}

// number reads a number.
func (r *reader) number(f field, lowest, highest int) (int, bool) {
	want := fmt.Sprintf("%d to %d", lowest, highest)
	s, ok := r.text(f, want)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.fail(f.line, f.path, "%q is not a number; use %s", s, want)
		return 0, false
	}
	if n < int64(lowest) || n > int64(highest) {
		r.fail(f.line, f.path, "%s is out of range; use %s", s, want)
		return 0, false
	}
	return int(n), true
}

// strategy reads what a proxy does for a service.
func (r *reader) strategy(fs map[string]field, role string) Strategy {
	f, there := fs["strategy"]
	switch {
	case role != RoleProxy:
		return ""
	case !there:
		return StrategyCookie
	}
	s, _ := r.word(f, strategyWords()...)
	return Strategy(s)
}

// firstData reads what a translating strategy does with clients' first data.
func (r *reader) firstData(fs map[string]field, role string, strategy Strategy) FirstData {
	f, there := fs["first_data"]
	switch {
	case role != RoleProxy:
		return ""
	case there && strategy != "" && !strategy.Translates():
		r.fail(f.line, f.path, "means nothing under strategy %s, which leaves connections to their servers; remove it, or use strategy: cookie or cache", strategy)
		return ""
	case !there:
		return FirstDataZeroWindow
	}
	s, _ := r.word(f, string(FirstDataZeroWindow), string(FirstDataNotify), string(FirstDataStore))
	if s == string(FirstDataStore) && r.plane != PlaneDPDK {
		r.fail(f.line, f.path, "store needs plane: dpdk; the XDP plane has nowhere to keep frames: use zero-window or notify")
	}
	return FirstData(s)
}
