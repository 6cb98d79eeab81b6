// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// P4 is what only plane: p4 has.
type P4 struct {
	Thrift        string // address of the switch's Thrift port
	Notifications string // path of its notifications socket; empty: nothing is learned
	Whitelist     P4Whitelist
	MACs          []SwitchMAC
	MACLimit      int // addresses learned on either side; 0: none
	MACAge        time.Duration
	PortMACs      []PortMAC
	MTU           int // of the links to the servers, for tags
}

// P4Whitelist says where a switch keeps the sources that have been verified.
type P4Whitelist string

const (
	P4WhitelistTable P4Whitelist = "table" // entries that the controller makes from digests
	P4WhitelistBloom P4Whitelist = "bloom" // registers of the switch
)

// SwitchMAC gives the switch port of an address.
type SwitchMAC struct {
	MAC       string
	Interface string
}

// PortMAC are the addresses that frames get on their way out of a port.
type PortMAC struct{ Interface, Src, Dst string }

// Sizes of the programs in p4/v1model; a test of internal/p4 compares them.
const (
	MaxSwitchServices = 63
	MaxSwitchEntries  = 4096 // of each address family, prefixes times ports
	MaxSwitchMACs     = 4096 // of p4.macs
	maxSwitchEpochs   = 64
	maxLearnedMACs    = 2048
)

var p4FieldTable = []Field{
	{Name: "p4", Roles: forwarders, Planes: onP4, Kind: Mapping, Change: "p4.thrift", Text: "the fields below"},
	{Name: "p4.thrift", Roles: forwarders, Planes: onP4, Kind: Text, Default: "127.0.0.1:9090", Values: "an address and port",
		Text: "the switch's Thrift port"},
	{Name: "p4.notifications", Example: `/run/switch.ipc`, Roles: forwarders, Planes: onP4, Kind: Text, Values: "path",
		Text: "the switch's notifications socket (`simple_switch --notifications-addr ipc://PATH`); strategy `cookie`, `whitelist: table` and learning of addresses need it"},
	{Name: "p4.whitelist", Roles: []string{RoleProxy}, Planes: onP4, Kind: Words, Words: []string{string(P4WhitelistTable), string(P4WhitelistBloom)}, Default: "table",
		Text: "where strategies `auth-cookie` and `auth-full` keep sources: `table`, entries of the controller; `bloom`, registers of the switch ([p4.md](p4.md))"},
	{Name: "p4.macs", Example: `["02:00:00:00:00:01 on eth1"]`, Roles: forwarders, Planes: onP4, Kind: List, Values: "`\"MAC on INTERFACE\"`", Live: atSwitch,
		Text: "static MAC addresses"},
	{Name: "p4.mac_limit", Example: `1024`, Roles: forwarders, Planes: onP4, Kind: Number, High: maxLearnedMACs, Default: "0", DefaultWith: With{"p4.notifications", "1024"}, Live: atSwitch,
		Text: "MAC addresses learned outside, and as many inside; 0: none"},
	{Name: "p4.mac_age", Roles: forwarders, Planes: onP4, Kind: Duration, Low: int64(time.Second), High: int64(24 * time.Hour), Default: "5m", Live: atSwitch,
		Text: "a learned address not seen at its port for this long is forgotten"},
	{Name: "p4.port_macs", Example: `["eth1 from 02:00:00:00:00:02 to 02:00:00:00:00:03"]`, Roles: forwarders, Planes: onP4, Kind: List, Values: "`\"INTERFACE from MAC to MAC\"`", Live: atSwitch,
		Text: "the addresses that frames get on their way out of a port"},
	{Name: "p4.mtu", Roles: []string{RoleEdge}, Planes: onP4, Kind: Number, Low: 576, High: 65535, Default: "1500", Live: []string{atEdgeP4},
		Text: "with `protocol: tagged`: the MTU of the links to the servers"},
}

// p4 reads the mapping `p4`.
func (r *reader) p4(c *Config, fs map[string]field) {
	if c.Plane != PlaneP4 {
		return
	}
	p := &c.P4
	var in map[string]field
	if f, there := fs["p4"]; there {
		var ok bool
		if in, ok = r.mapping(f, namesOf("p4", "")); !ok {
			return
		}
		r.belong(in, "p4")
	}
	r.take(in, "p4.thrift", &p.Thrift)
	if host, port, err := net.SplitHostPort(p.Thrift); err != nil || host == "" || port == "" {
		f := in["thrift"]
		r.fail(f.line, f.path, "%q is not an address and port; write it like 127.0.0.1:9090", p.Thrift)
	}
	r.take(in, "p4.notifications", &p.Notifications)
	if c.Role == RoleProxy {
		r.take(in, "p4.whitelist", &p.Whitelist)
	}
	if c.Role == RoleEdge {
		if r.take(in, "p4.mtu", &p.MTU); c.Edge.Protocol != ProtocolTagged {
			if f, there := in["mtu"]; there {
				r.fail(f.line, f.path, "means nothing without protocol: tagged; remove it, or set that")
			}
		}
	}
	r.take(in, "p4.mac_limit", &p.MACLimit)
	if f, there := in["mac_limit"]; there && p.MACLimit > 0 && p.Notifications == "" {
		r.fail(f.line, f.path, "addresses are learned from notifications; name their path, or set mac_limit: 0")
	}
	r.take(in, "p4.mac_age", &p.MACAge)
	r.switchMACs(c, in)
}

// switchMACs reads what is configured by port.
func (r *reader) switchMACs(c *Config, in map[string]field) {
	isMAC := func(s string) bool {
		hw, err := net.ParseMAC(s)
		return err == nil && len(hw) == 6
	}
	if f, there := in["macs"]; there {
		for _, s := range r.texts(f, `an address such as "02:00:00:00:00:01 on sw1"`) {
			mac, name, _ := strings.Cut(s, " on ")
			if !isMAC(mac) || !slices.Contains(c.Interfaces, name) {
				r.fail(f.line, f.path, `%q is not a MAC address at a port; write "MAC on INTERFACE", with one of the interfaces above`, s)
				continue
			}
			c.P4.MACs = append(c.P4.MACs, SwitchMAC{mac, name})
		}
		if len(c.P4.MACs) > MaxSwitchMACs {
			r.fail(f.line, f.path, "%d addresses are too many; the switch's table holds %d", len(c.P4.MACs), MaxSwitchMACs)
		}
	}
	if f, there := in["port_macs"]; there {
		for _, s := range r.texts(f, `a port such as "sw1 from 02:00:00:00:00:01 to 02:00:00:00:00:02"`) {
			w := strings.Fields(s)
			if len(w) != 5 || w[1] != "from" || w[3] != "to" || !isMAC(w[2]) || !isMAC(w[4]) || !slices.Contains(c.Interfaces, w[0]) {
				r.fail(f.line, f.path, `%q is not a port; write "INTERFACE from MAC to MAC", with one of the interfaces above`, s)
				continue
			}
			c.P4.PortMACs = append(c.P4.PortMACs, PortMAC{w[0], w[2], w[4]})
		}
	}
}

// fitsSwitch refuses what no program of a switch can hold or do.
func (r *reader) fitsSwitch(c *Config, fs map[string]field) {
	if c.Plane != PlaneP4 || len(c.Services) == 0 {
		return
	}
	f := fs["services"]
	if len(c.Services) > MaxSwitchServices {
		r.fail(f.line, f.path, "%d services are too many for plane: p4; use at most %d", len(c.Services), MaxSwitchServices)
	}
	var entries [2]int
	for _, s := range c.Services {
		ports := 0
		for _, p := range s.Ports {
			ports += int(p.Last) - int(p.First) + 1
		}
		for _, p := range s.Prefixes {
			entries[familyOf(p)] += ports
		}
	}
	if most := max(entries[0], entries[1]); most > MaxSwitchEntries {
		r.fail(f.line, f.path, "prefixes times ports are %d entries of one address family, and the switch's table holds %d; join prefixes, or name fewer ports", most, MaxSwitchEntries)
	}
	if c.Role != RoleProxy {
		return
	}
	strategy := c.Services[0].Strategy
	for _, s := range c.Services {
		if s.Strategy != strategy {
			r.fail(s.Line, f.path, "%s has strategy %s and %s has %s; one program on a switch has one strategy: give all services the same, or use plane: xdp", c.Services[0].Name, strategy, s.Name, s.Strategy)
			return
		}
	}
	in := map[string]field{}
	if p, there := fs["p4"]; there {
		in, _ = r.mapping(p, namesOf("p4", ""))
	}
	if w, there := in["whitelist"]; there && strategy.Translates() {
		r.fail(w.line, w.path, "means nothing under strategy %s, which keeps connections and not sources; remove it", strategy)
	}
	if c.P4.Notifications == "" && (strategy.Translates() || c.P4.Whitelist == P4WhitelistTable) {
		cure := ""
		if !strategy.Translates() {
			cure = ", or set whitelist: bloom"
		}
		r.fail(f.line, "p4.notifications", "is missing; strategy %s needs it: name the path of simple_switch --notifications-addr ipc://PATH%s", strategy, cure)
	}
}

func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// formerSwitch refuses a file of `tidegate p4 run` from before plane: p4, and says what to do with it.
func (r *reader) formerSwitch(top field) bool {
	if hasKey(top.node, "role") || !hasKey(top.node, "program") {
		return false
	}
	r.fail(top.line, "program", "is of the former configuration of switches: start it with `tidegate p4 run -c FILE`, or write it with role and plane: p4 (docs/p4.md)")
	return true
}

// NamesPlane reports whether a file has the field `plane`, right or wrong: files of `tidegate p4 run` from before
// plane: p4 have none.
func NamesPlane(data []byte) bool {
	r := &reader{}
	top, ok := r.root(data)
	return ok && hasKey(top.node, "plane")
}

func hasKey(n ast.Node, name string) bool {
	m, ok := n.(*ast.MappingNode)
	return ok && slices.ContainsFunc(m.Values, func(v *ast.MappingValueNode) bool {
		key, isString := v.Key.(*ast.StringNode)
		return isString && key.Value == name
	})
}
