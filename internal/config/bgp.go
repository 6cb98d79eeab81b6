// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BGP says what this gate announces to routers, and to which (docs/routers.md); without peers, nothing.
type BGP struct {
	AS        uint32
	RouterID  netip.Addr
	HoldTime  time.Duration
	Own       []netip.Prefix
	Never     []netip.Prefix
	Offenders BGPOffenders
	// Of sources that are announced:
	SourceRate int // completed handshakes/s; more is too many
	Expires    time.Duration
	Max        int
	PerMinute  int
	// Of routes that discard:
	NextHop4, NextHop6 netip.Addr
	Communities        []uint32
	// Of anycast:
	ServicePrefixes []netip.Prefix
	Settle          time.Duration
	Peers           []BGPPeer
}

// BGPPeer is a router.
type BGPPeer struct {
	Address  netip.Addr
	Port     uint16
	AS       uint32
	Local    netip.Addr // the zero Addr: any
	Password string     // a file
	Hops     int
	GTSM     bool
	Flow     bool
}

// BGPOffenders says what is announced of sources that handshakes have proven.
type BGPOffenders string

// What may be announced of them.
const (
	OffendersNone   BGPOffenders = "none"
	OffendersSource BGPOffenders = "source" // source RTBH
	OffendersFlow   BGPOffenders = "flow"   // FlowSpec
)

// maxBGPPeers bounds the sessions.
const maxBGPPeers = 16

var (
	withOffenders = []string{RoleHost, RoleProxy, RoleEdge}
)

const blackhole = "65535:666" // RFC 7999

var bgpFieldTable = []Field{
	{Name: "bgp", Roles: withServices, Kind: Mapping, Change: "bgp",
		Text: "what is announced to routers by BGP ([routers.md](routers.md)). A restart of the daemon ends the sessions, and withdraws all routes until it is ready again. The fields below"},
	{Name: "bgp.as", Example: `64512`, Roles: withServices, Kind: Number, Low: 1, High: 4294967294, Default: "required", Change: "bgp",
		Text: "number of this machine's autonomous system"},
	{Name: "bgp.router_id", Example: `192.0.2.10`, Roles: withServices, Kind: Text, Default: "required", Values: "an IPv4 address", Change: "bgp",
		Text: "this machine's BGP identifier, unique among the speakers of its autonomous system"},
	{Name: "bgp.hold_time", Roles: withServices, Kind: Duration, Low: int64(3 * time.Second), High: int64(10 * time.Minute), Default: "30s", Change: "bgp",
		Text: "the hold time that is offered, in whole seconds: so long after this machine has vanished, a router withdraws its routes"},
	{Name: "bgp.own", Example: `[203.0.113.0/24, "2001:db8::/48"]`, Roles: withServices, Kind: List, Default: "required", Values: "prefixes", Change: "bgp",
		Text: "your prefixes: no address in them is announced as a source, and only addresses in them as destinations"},
	{Name: "bgp.never", Example: `[198.51.100.0/24]`, Roles: withServices, Kind: List, Values: "prefixes", Change: "bgp",
		Text: "prefixes that no discarding route may overlap, not even one made by hand: monitoring, partners, resolvers"},
	{Name: "bgp.offenders", Roles: withOffenders, Planes: onXDP, Kind: Words, Words: []string{string(OffendersNone), string(OffendersSource), string(OffendersFlow)}, Default: "none", Change: "bgp",
		Text: "what is announced of a source that has proven its address by handshakes and exceeds `source_rate`. `source`: routers discard what comes from it (source RTBH); `flow`: they discard its TCP to the address that it attacks (FlowSpec)"},
	{Name: "bgp.source_rate", Roles: withOffenders, Planes: onXDP, Kind: Number, Low: 1, High: maxReportRate, Default: "1000", Change: "bgp",
		Text: "handshakes a second that one source may complete: with all services together (`offenders: source`), or with one address (`flow`). Allow for addresses that many people share"},
	{Name: "bgp.expires", Roles: withServices, Kind: Duration, Low: int64(time.Second), High: int64(24 * time.Hour), Default: "10m", Change: "bgp",
		Text: "how long a discarding route lasts: for a source, from when it last exceeded `source_rate`; the time doubles with each relapse within an hour, up to 16 times this value. For a route made by hand, unless `--for` says otherwise"},
	{Name: "bgp.max", Roles: withServices, Kind: Number, Low: 1, High: 10_000, Default: "100", Change: "bgp",
		Text: "the most sources announced at a time, and the most routes made by hand"},
	{Name: "bgp.per_minute", Roles: withServices, Kind: Number, Low: 1, High: 6000, Default: "60", Change: "bgp",
		Text: "the most new sources announced in a minute"},
	{Name: "bgp.next_hop_v4", Roles: withServices, Kind: Text, Default: "192.0.2.1", Values: "an IPv4 address", Change: "bgp",
		Text: "next hop of discarding IPv4 routes; your routers send it to their null interface"},
	{Name: "bgp.next_hop_v6", Roles: withServices, Kind: Text, Default: "100::1", Values: "an IPv6 address", Change: "bgp",
		Text: "next hop of discarding IPv6 routes (RFC 6666)"},
	{Name: "bgp.communities", Example: `["65535:666"]`, Roles: withServices, Kind: List, Default: "`[\"" + blackhole + "\"]`", Values: "`\"NUMBER:NUMBER\"` each", Change: "bgp",
		Text: "communities of discarding routes; the default is BLACKHOLE (RFC 7999). NO_EXPORT is always added"},
	{Name: "bgp.service_prefixes", Example: `[203.0.113.0/24]`, Roles: withServices, Kind: List, Values: "prefixes within `own`", Change: "bgp",
		Text: "prefixes announced while this gate can protect (anycast), and withdrawn at once when it cannot"},
	{Name: "bgp.settle", Roles: withServices, Kind: Duration, Low: 0, High: int64(10 * time.Minute), Default: "10s", Change: "bgp",
		Text: "how long the gate must have been able to protect before `service_prefixes` are announced; doubled with each failure within an hour, up to 10 minutes"},
	{Name: "bgp_peers", Example: `[{address: 192.0.2.1, as: 64500, port: 179, local_address: 192.0.2.10, password_file: /etc/tidegate/bgp-password, hops: 1, ttl_security: yes, flowspec: no}]`, Roles: withServices, Kind: Mappings, Values: "1 to 16 mappings with the fields below", Change: "bgp",
		Text: "the routers to which sessions are opened; required with `bgp`. An IPv4 peer gets IPv4 routes, an IPv6 peer IPv6 routes"},
	{Name: "bgp_peers.address", Roles: withServices, Kind: Text, Default: "required", Values: "an address", Change: "bgp",
		Text: "the router's address"},
	{Name: "bgp_peers.as", Roles: withServices, Kind: Number, Low: 1, High: 4294967294, Default: "required", Change: "bgp",
		Text: "number of the router's autonomous system"},
	{Name: "bgp_peers.port", Roles: withServices, Kind: Number, Low: 1, High: 65535, Default: "179", Change: "bgp",
		Text: "the router's TCP port"},
	{Name: "bgp_peers.local_address", Roles: withServices, Kind: Text, Values: "an address of this machine", Change: "bgp",
		Text: "the address from which the session is opened; none: the kernel chooses"},
	{Name: "bgp_peers.password_file", Roles: withServices, Kind: Text, Values: "path", Change: "bgp",
		Text: "a file that only its owner can read, with the password of TCP MD5 (RFC 2385)"},
	{Name: "bgp_peers.hops", Roles: withServices, Kind: Number, Low: 1, High: 255, Default: "1", Change: "bgp",
		Text: "how many hops away the router is; 1: on the same link"},
	{Name: "bgp_peers.ttl_security", Roles: withServices, Kind: YesNo, Default: "no", Change: "bgp",
		Text: "`yes`: packets are sent with TTL 255, so that the router can drop packets from farther away (GTSM, RFC 5082). Arriving packets are not checked"},
	{Name: "bgp_peers.flowspec", Roles: withServices, Kind: YesNo, Default: "no", Change: "bgp",
		Text: "`yes`: the router accepts FlowSpec, and gets such routes"},
}

// bgp reads what is announced to routers.
func (r *reader) bgp(c *Config, fs map[string]field) {
	f, there := fs["bgp"]
	peers, name := fs["bgp_peers"]
	if !there {
		if name {
			r.fail(peers.line, peers.path, "needs `bgp`, which says what these routers are told")
		}
		return
	}
	in, ok := r.mapping(f, namesOf("bgp", ""))
	if !ok {
		return
	}
	r.belong(in, "bgp")
	b := &c.BGP
	for _, need := range []string{"as", "router_id", "own"} {
		if _, there := in[need]; !there {
			r.fail(f.line, f.path+"."+need, "is missing; docs/routers.md says what it is")
		}
	}
	r.take(in, "bgp.as", &b.AS)
	r.take(in, "bgp.hold_time", &b.HoldTime)
	if len(planesOf("bgp.offenders", c.Role)) > 0 && fieldIsHere("bgp.offenders", c.Role, c.Plane) {
		r.take(in, "bgp.offenders", &b.Offenders)
		r.take(in, "bgp.source_rate", &b.SourceRate)
	}
	r.take(in, "bgp.expires", &b.Expires)
	r.take(in, "bgp.max", &b.Max)
	r.take(in, "bgp.per_minute", &b.PerMinute)
	r.take(in, "bgp.settle", &b.Settle)
	b.RouterID = r.ip(in, "router_id", netip.Addr.Is4, "")
	b.NextHop4 = r.ip(in, "next_hop_v4", netip.Addr.Is4, fieldOf("bgp.next_hop_v4", c.Role, c.Plane).Default)
	b.NextHop6 = r.ip(in, "next_hop_v6", netip.Addr.Is6, fieldOf("bgp.next_hop_v6", c.Role, c.Plane).Default)
	b.Own, b.Never, b.ServicePrefixes = r.prefixList(in, "own"), r.prefixList(in, "never"), r.prefixList(in, "service_prefixes")
	r.communities(b, in)
	for _, p := range b.ServicePrefixes {
		if !slices.ContainsFunc(b.Own, func(own netip.Prefix) bool { return own.Bits() <= p.Bits() && own.Overlaps(p) }) {
			r.fail(in["service_prefixes"].line, in["service_prefixes"].path, "%s is not within bgp.own; only your own prefixes can be announced", p)
		}
	}
	if !name {
		r.fail(f.line, "bgp_peers", "is missing; name the routers, such as [{address: 192.0.2.1, as: 64500}]")
		return
	}
	r.bgpPeers(b, peers)
	if b.Offenders == OffendersFlow && !slices.ContainsFunc(b.Peers, func(p BGPPeer) bool { return p.Flow }) {
		r.fail(f.line, f.path+".offenders", "flow needs a peer with flowspec: yes")
	}
}

// fieldIsHere reports whether a role has a field on its plane; a role without planes runs on XDP.
func fieldIsHere(name, role string, plane Plane) bool {
	planes := planesOf(name, role)
	return slices.Contains(rolesOf(name), role) && (!hasPlanes(role) || planes == nil || slices.Contains(planes, plane))
}

func (r *reader) bgpPeers(b *BGP, f field) {
	items, _ := r.sequence(f)
	if len(items) == 0 || len(items) > maxBGPPeers {
		r.fail(f.line, f.path, "name 1 to %d routers", maxBGPPeers)
		return
	}
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("bgp_peers", ""))
		if !ok {
			continue
		}
		for _, need := range []string{"address", "as"} {
			if _, there := fs[need]; !there {
				r.fail(it.line, it.path+"."+need, "is missing; a router has address and as")
			}
		}
		any := func(netip.Addr) bool { return true }
		p := BGPPeer{Address: r.ip(fs, "address", any, ""), Local: r.ip(fs, "local_address", any, ""), Password: r.path(fs, "password_file")}
		r.take(fs, "bgp_peers.as", &p.AS)
		r.take(fs, "bgp_peers.port", &p.Port)
		r.take(fs, "bgp_peers.hops", &p.Hops)
		r.take(fs, "bgp_peers.ttl_security", &p.GTSM)
		r.take(fs, "bgp_peers.flowspec", &p.Flow)
		if p.Local.IsValid() && p.Local.Is4() != p.Address.Is4() {
			r.fail(it.line, it.path, "address and local_address are of different families")
		}
		if slices.ContainsFunc(b.Peers, func(o BGPPeer) bool { return o.Address == p.Address }) {
			r.fail(it.line, it.path, "%s is named twice", p.Address)
		}
		b.Peers = append(b.Peers, p)
	}
}

// ip reads an address of the kind that good accepts; def is that of a file without it.
func (r *reader) ip(fs map[string]field, name string, good func(netip.Addr) bool, def string) (a netip.Addr) {
	f, there := fs[name]
	if !there {
		if def != "" {
			a = netip.MustParseAddr(def)
		}
		return a
	}
	s, ok := r.text(f, "an address")
	if !ok {
		return a
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4In6() || !good(a) || a.IsUnspecified() || a.IsMulticast() {
		r.fail(f.line, f.path, "%q is not an address that can stand here", s)
	}
	return a
}

func (r *reader) communities(b *BGP, fs map[string]field) {
	texts := []string{blackhole}
	f, there := fs["communities"]
	if there {
		texts = r.texts(f, "a community such as 65535:666")
	}
	for _, s := range texts {
		n, err := parseCommunity(s)
		if err != nil {
			r.fail(f.line, f.path, "%q: %v", s, err)
		}
		b.Communities = append(b.Communities, n)
	}
}

func parseCommunity(s string) (uint32, error) {
	high, low, _ := strings.Cut(s, ":")
	h, err := strconv.ParseUint(high, 10, 16)
	if err == nil {
		var l uint64
		if l, err = strconv.ParseUint(low, 10, 16); err == nil {
			return uint32(h<<16 | l), nil
		}
	}
	return 0, fmt.Errorf("not a community; write it like 65535:666 (RFC 1997)")
}
