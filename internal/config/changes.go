// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// changeable is the one list of top-level fields, with what a reload compares.
// Fields (fields.go) says which of them a role applies live; every other change is refused, so that none
// is accepted and then ignored. loses is what a restart with another value costs.
var changeable = []struct {
	name  string
	of    func(c *Config) any
	loses string
}{
	{"role", func(c *Config) any { return c.Role }, "connections that the former role translates"},
	{"plane", func(c *Config) any { return c.Plane }, "translated connections"},
	{"instance", func(c *Config) any { return c.Instance }, "a second instance beside the first: run `tidegate off` for that one"},
	{"interfaces", func(c *Config) any {
		if c.Patrol != nil { // those of `ports`
			return nil
		}
		return c.Interfaces
	}, ""},
	{"secret_file", func(c *Config) any { return c.SecretFile }, "handshakes under way, if its keys are others"},
	{"next_secret", func(c *Config) any { return c.NextSecret }, ""},
	{"epoch", func(c *Config) any { return c.Epoch }, "handshakes under way"},
	{"key_horizon", func(c *Config) any { return c.KeyHorizon }, ""},
	{"drain", func(c *Config) any { return c.Drain }, ""},
	{"on_stale_keys", func(c *Config) any { return c.OnStaleKeys }, ""},
	{"synack_limit", func(c *Config) any { return c.SynackLimit }, ""},
	{"source_limits", func(c *Config) any { return c.SourceLimits }, ""},
	{"detector", func(c *Config) any { return c.Detector }, ""},
	{"allow_list", func(c *Config) any { return c.AllowList }, ""},
	{"deny_list", func(c *Config) any { return c.DenyList }, ""},
	{"xdp_mode", func(c *Config) any { return c.XDPMode }, ""},
	{"dispatcher", func(c *Config) any { return c.Dispatcher }, ""},
	{"tc_order", func(c *Config) any { return c.TCOrder }, ""},
	{"dispatcher_priority", func(c *Config) any { return c.Priority }, ""},
	{"clock_skew", func(c *Config) any { return c.ClockSkew }, ""},
	{"metrics", func(c *Config) any { return c.Metrics }, ""},
	{"events", func(c *Config) any { return c.Events }, ""},
	{"fleet", func(c *Config) any { return c.Fleet }, ""},
	{"bgp", func(c *Config) any { return c.BGP }, "the routes that are announced"},
	{"remember_sources", func(c *Config) any { return c.Remember }, ""},
	{"report_to", func(c *Config) any { return c.ReportTo }, ""},
	{"forwarding", func(c *Config) any {
		return [2]any{[2]Forwarding{c.Proxy.Forwarding, c.Edge.Forwarding}, upstream(func(p *Patrol) any { return p.Forwarding }, nil, nil)(c)}
	}, ""},
	{"fast_path", func(c *Config) any { return [2]FastPath{c.Proxy.FastPath, c.Edge.FastPath} }, ""},
	{"protocol", func(c *Config) any { return [2]Protocol{c.Edge.Protocol, c.Server.Protocol} }, ""},
	{"cookie_layout", func(c *Config) any { return [2]Layout{c.Edge.Layout, c.Server.Layout} }, "handshakes under way"},

	{"swap_period", func(c *Config) any { return c.Proxy.SwapPeriod }, ""},
	{"idle_time", func(c *Config) any { return [2]any{c.Proxy.IdleTime, c.Tagged.IdleTime} }, ""},
	{"max_flows", func(c *Config) any { return c.Proxy.MaxFlows }, ""},
	{"max_sources", func(c *Config) any { return c.Proxy.MaxSources }, ""},
	{"whitelist_v4", func(c *Config) any { return c.Proxy.WhitelistV4 }, "whitelisted sources"},
	{"source_prefix_v4", func(c *Config) any { return c.Proxy.SourcePrefixV4 }, "whitelisted sources"},
	{"source_prefix_v6", func(c *Config) any { return c.Proxy.SourcePrefixV6 }, "whitelisted sources"},
	{"cache_entries", func(c *Config) any { return c.Proxy.CacheEntries }, "handshakes under way of strategy cache"},
	{"dpdk.routes", func(c *Config) any { return c.Proxy.DPDK.Routes }, ""},
	{"dpdk.addresses", func(c *Config) any { return c.Proxy.DPDK.Addresses }, ""},
	{"dpdk", func(c *Config) any {
		d := c.Proxy.DPDK
		d.Routes, d.Addresses = nil, nil
		return d
	}, ""},

	{"inside", func(c *Config) any { return [2][]string{c.Edge.Inside, c.Proxy.Inside} }, ""},
	{"filter_bits", func(c *Config) any { return c.Edge.FilterBits }, "the filter, which then learns again"},
	{"filter_window", func(c *Config) any { return c.Edge.FilterWindow }, ""},
	{"learning", func(c *Config) any { return c.Edge.Learning }, ""},
	{"filter_alarm", func(c *Config) any { return c.Edge.FilterAlarm }, ""},
	{"unknown_rate", func(c *Config) any { return c.Edge.UnknownRate }, ""},
	{"challenge", func(c *Config) any { return c.Edge.Challenge }, ""},
	{"hops", func(c *Config) any { return c.Edge.Hops }, ""},
	{"offers", func(c *Config) any { return [3]bool{c.Edge.SACK, c.Edge.Timestamps, c.Edge.ECN} }, ""},
	{"edge_id", func(c *Config) any { return c.Tagged.EdgeID }, ""},
	{"peers", func(c *Config) any { return c.Tagged.Peers }, ""},

	{"takeover", func(c *Config) any { return c.Server.Takeover }, "translated connections"},
	{"half_open_rate", func(c *Config) any { return c.Server.HalfOpenRate }, ""},
	{"unmatched_ack", func(c *Config) any { return c.Server.UnmatchedACK }, ""},
	{"without_edge", func(c *Config) any { return c.Server.WithoutEdge }, ""},
	{"edges", func(c *Config) any { return c.Tagged.Edges }, ""},
	{"max_connections", func(c *Config) any { return c.Tagged.MaxConnections }, "translated connections"},
	{"source_share", func(c *Config) any { return c.Tagged.SourceShare }, ""},

	{"p4.thrift", func(c *Config) any { return c.P4.Thrift }, ""},
	{"p4.notifications", func(c *Config) any { return c.P4.Notifications }, ""},
	{"p4.whitelist", func(c *Config) any { return c.P4.Whitelist }, "whitelisted sources"},
	{"p4.macs", func(c *Config) any { return c.P4.MACs }, ""},
	{"p4.mac_limit", func(c *Config) any { return c.P4.MACLimit }, ""},
	{"p4.mac_age", func(c *Config) any { return c.P4.MACAge }, ""},
	{"p4.port_macs", func(c *Config) any { return c.P4.PortMACs }, ""},
	{"p4.mtu", func(c *Config) any { return c.P4.MTU }, ""},

	{"listen", upstream(func(p *Patrol) any { return p.Listen }, func(b *Border) any { return b.Listen }, func(f *Filter) any { return f.Listen }), ""},
	{"identity_file", upstream(func(p *Patrol) any { return p.Identity }, func(b *Border) any { return b.Identity }, func(f *Filter) any { return f.Identity }), ""},
	{"codepoint", upstream(func(p *Patrol) any { return p.Codepoint }, func(b *Border) any { return b.Codepoint }, func(f *Filter) any { return f.Codepoint }), ""},
	{"ports", upstream(func(p *Patrol) any { return p.Ports }, nil, nil), ""},
	{"sources", upstream(func(p *Patrol) any { return p.Sources }, nil, nil), ""},
	{"sources_file", upstream(func(p *Patrol) any { return p.SourcesFile }, nil, nil), ""},
	{"check_sources", upstream(func(p *Patrol) any { return p.Check }, nil, nil), ""},
	{"managers", upstream(func(p *Patrol) any { return p.Managers }, nil, nil), ""},
	{"max_filters", upstream(func(p *Patrol) any { return p.MaxFilters }, nil, nil), ""},
	{"exceptions", upstream(func(p *Patrol) any { return p.Exceptions }, nil, nil), ""},
	{"plain", upstream(func(p *Patrol) any { return p.Plain }, nil, nil), ""},
	{"bindings", upstream(nil, func(b *Border) any { return b.Bindings }, func(f *Filter) any { return f.Bindings }), ""},
	{"signed_bindings", upstream(nil, func(b *Border) any { return b.Signed }, func(f *Filter) any { return f.Signed }), ""},
	{"patrols", upstream(nil, func(b *Border) any { return b.Patrols }, nil), ""},
	{"rate", upstream(nil, func(b *Border) any { return b.Rate }, nil), ""},
	{"protect", upstream(nil, func(b *Border) any { return b.Protect }, nil), ""},
	{"own", upstream(nil, nil, func(f *Filter) any { return f.Own }), ""},
	{"never", upstream(nil, nil, func(f *Filter) any { return f.Never }), ""},
	{"api", upstream(nil, nil, func(f *Filter) any { return f.API }), ""},
	{"api_listen", upstream(nil, nil, func(f *Filter) any { return f.APIListen }), ""},
	{"detectors", upstream(nil, nil, func(f *Filter) any { return f.Detectors }), ""},
	{"filters_file", upstream(nil, nil, func(f *Filter) any { return f.FiltersFile }), ""},
	{"expires", upstream(nil, nil, func(f *Filter) any { return f.Expires }), ""},
	{"floor", upstream(nil, nil, func(f *Filter) any { return f.Floor }), ""},
	{"idle", upstream(nil, nil, func(f *Filter) any { return f.Idle }), ""},
	{"watch", upstream(nil, nil, func(f *Filter) any { return f.Watch }), ""},
	{"proof", upstream(nil, nil, func(f *Filter) any { return f.Proof }), ""},
	{"suricata", upstream(nil, nil, func(f *Filter) any { return f.Suricata }), ""},
}

// upstream returns a field of whichever of the three roles is configured.
func upstream(patrol func(*Patrol) any, border func(*Border) any, filter func(*Filter) any) func(*Config) any {
	return func(c *Config) any {
		switch {
		case patrol != nil && c.Patrol != nil:
			return patrol(c.Patrol)
		case border != nil && c.Border != nil:
			return border(c.Border)
		case filter != nil && c.Filter != nil:
			return filter(c.Filter)
		}
		return nil
	}
}

// Changed names the fields, services aside, that differ.
func Changed(old, next *Config) (names []string) {
	for _, f := range changeable {
		if !reflect.DeepEqual(f.of(old), f.of(next)) {
			names = append(names, f.name)
		}
	}
	return names
}

// CheckReload refuses changes of fields that a reload does not bring into force (Field.Live), and names all of them.
// always is what any restart of this plane costs; empty: nothing.
func CheckReload(old, next *Config, always string) error {
	var refused, loses []string
	for _, name := range Changed(old, next) {
		if liveAt(name, old.situation()) {
			continue
		}
		refused = append(refused, name)
		lost := always
		for _, f := range changeable {
			if f.name == name && lost == "" {
				lost = f.loses
			}
		}
		if lost != "" && !slices.Contains(loses, lost) {
			loses = append(loses, lost)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	if len(loses) == 0 {
		loses = []string{"nothing"}
	}
	return fmt.Errorf("%s changed: it takes effect at the next restart (`systemctl restart`, or stop and start), which loses: %s; nothing of this reload was applied",
		strings.Join(refused, ", "), strings.Join(loses, "; "))
}

// Difference names all that differs, services by name: "services.web".
func Difference(old, next *Config) (names []string) {
	names = Changed(old, next)
	before := map[string]Service{}
	for _, s := range old.Services {
		s.Line = 0
		before[s.Name] = s
	}
	for _, s := range next.Services {
		s.Line = 0
		was, there := before[s.Name]
		delete(before, s.Name)
		switch {
		case !there:
			names = append(names, "services."+s.Name+" (new)")
		case !reflect.DeepEqual(was, s):
			names = append(names, "services."+s.Name)
		}
	}
	for _, s := range old.Services {
		if _, gone := before[s.Name]; gone {
			names = append(names, "services."+s.Name+" (gone)")
		}
	}
	return names
}

// Change is one difference between two configurations.
type Change struct {
	Name    string `json:"name"`
	Live    bool   `json:"live"`              // a reload brings it into force
	Running string `json:"running,omitempty"` // values that are one word or number
	File    string `json:"file,omitempty"`
}

// Diff lists what changes when next replaces old.
func Diff(old, next *Config) (list []Change) {
	for _, name := range Difference(old, next) {
		at, _, _ := strings.Cut(name, ".")
		if !strings.HasPrefix(name, "services.") {
			at = name
		}
		c := Change{Name: name, Live: liveAt(at, old.situation())}
		for _, f := range changeable {
			if f.name == name {
				c.Running, c.File = oneWord(f.of(old)), oneWord(f.of(next))
			}
		}
		list = append(list, c)
	}
	return list
}

// oneWord is a value as text if it is a word, a number or a time; others are too long to compare by eye.
func oneWord(v any) string {
	if v == nil {
		return ""
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint64, reflect.Float64:
		return fmt.Sprint(v)
	}
	if s, ok := v.(interface{ IsValid() bool }); ok && s.IsValid() { // an address and port
		return fmt.Sprint(v)
	}
	return ""
}
