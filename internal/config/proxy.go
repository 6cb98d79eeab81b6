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
)

// proxy reads the fields of the top level that only a proxy has.
func (r *reader) proxy(c *Config, fs map[string]field) {
	if c.Role != RoleProxy {
		c.Proxy = Proxy{}
		return
	}
	p := &c.Proxy
	r.take(fs, "forwarding", &p.Forwarding)
	r.take(fs, "fast_path", &p.FastPath)
	r.take(fs, "whitelist_v4", &p.WhitelistV4)
	r.take(fs, "swap_period", &p.SwapPeriod)
	r.take(fs, "idle_time", &p.IdleTime)
	r.take(fs, "max_flows", &p.MaxFlows)
	r.take(fs, "max_sources", &p.MaxSources)
	r.take(fs, "source_prefix_v4", &p.SourcePrefixV4)
	r.take(fs, "source_prefix_v6", &p.SourcePrefixV6)
	r.take(fs, "cache_entries", &p.CacheEntries)
	r.dpdk(c, fs)
	if c.Plane == PlaneP4 {
		p.Inside = r.inside(c, fs)
	}
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
func (r *reader) strategy(fs map[string]field, role string) (s Strategy) {
	if role == RoleProxy {
		r.take(fs, "services.strategy", &s)
	}
	return s
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
	}
	var d FirstData
	r.take(fs, "services.first_data", &d)
	return d
}

// deferAccept reads whether the client's first segment completes the server's handshake.
func (r *reader) deferAccept(fs map[string]field, role string, strategy Strategy) (defers bool) {
	f, there := fs["defer_accept"]
	switch {
	case role != RoleProxy:
		return false
	case there && strategy != "" && !strategy.Translates():
		r.fail(f.line, f.path, "means nothing under strategy %s, where clients complete their servers' handshakes themselves; remove it, or use strategy: cookie or cache", strategy)
		return false
	}
	r.take(fs, "services.defer_accept", &defers)
	return defers
}
