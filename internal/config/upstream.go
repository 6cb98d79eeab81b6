// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Roles of Terminus: they filter, near the source, what a destination does not want.
const (
	RolePatrol        = "patrol"
	RoleBorderManager = "border-manager"
	RoleFilterManager = "filter-manager"
)

// Limits of the upstream roles.
const (
	MaxFilters  = 1 << 24 // of a patrol
	MaxPatrols  = 1024
	MaxSources6 = 1 << 18

	MaxDetectors = 1024
)

// Side is where a patrol's port leads.
type Side string

const (
	SideCustomers Side = "customers"
	SideUpstream  Side = "upstream"
)

// Neighbour says what is done with the true-source codepoint of incoming packets.
type Neighbour string

const (
	NeighbourTerminus Neighbour = "terminus" // kept
	NeighbourLegacy   Neighbour = "legacy"   // removed
	NeighbourTrue     Neighbour = "true"     // set: sources are checked, but not marked
)

// PatrolPort is one port of a patrol.
type PatrolPort struct {
	Interface string
	Side      Side
	Neighbour Neighbour // of a port to upstream
	QueueBits uint64    // rate of the queues on what leaves here, bits/s; 0: none
}

// Exception is traffic that no filter applies to.
type Exception struct{ Src, Dst netip.Prefix }

// Patrol is what only the role patrol has.
type Patrol struct {
	Identity    string
	Listen      netip.AddrPort // invalid: no border manager is served
	Managers    []string       // public keys, hex
	Forwarding  Forwarding     // ForwardKernel or ForwardBridge
	Codepoint   uint8
	Plain       uint8
	MaxFilters  int
	Ports       []PatrolPort
	Sources     []netip.Prefix
	SourcesFile string
	Check       bool // ingress filter on ports to customers
	Exceptions  []Exception
}

// ForwardKernel leaves frames to the kernel, which routes or bridges them.
const ForwardKernel Forwarding = "kernel"

// BorderPatrol is a patrol as configured at a border manager.
type BorderPatrol struct {
	Name     string
	Address  netip.AddrPort
	Key      string
	Prefixes []netip.Prefix
}

// Signed says where signed bindings come from; Anchors is "" if they are not used.
type Signed struct {
	Anchors, Store, Key, Listen string
	Neighbours, Publish         []string
}

// Border is what only the role border-manager has.
type Border struct {
	Identity   string
	Listen     netip.AddrPort
	Codepoint  uint8
	Rate       int
	Bindings   string
	Signed     Signed
	Patrols    []BorderPatrol
	Protect    []netip.Prefix
	Interfaces []string // nonces are answered in XDP here
}

// Filter is what only the role filter-manager has.
type Filter struct {
	Listen    netip.AddrPort
	Codepoint uint8
	API       string // a path of a socket
	Bindings  string
	Signed    Signed
	Own       []netip.Prefix
	Never     []netip.Prefix
	// FiltersFile is where the filters are kept; empty: in the state directory.
	FiltersFile string
	Expires     time.Duration
	Floor       uint32 // packets/s
	Idle        time.Duration
	Watch       time.Duration
	Proof       bool
	Suricata    []string       // EVE files that are followed
	APIListen   netip.AddrPort // for detectors on other machines; invalid: none are served
	Identity    string
	Detectors   []FilterDetector
}

// FilterDetector is a detector on another machine, as configured at a filter manager.
type FilterDetector struct {
	Name, Key string
	Filters   int // that it may have at once
}

// upstreamRoles are read by upstreamDocument.
var upstreamRoles = []string{RolePatrol, RoleBorderManager, RoleFilterManager}

// Codepoint that says "true source" by default: 47, of DSCP pool 2,
// which RFC 2474 section 6 leaves to local use.
const defaultCodepoint = 47

// DefaultFilterRate is how many filters a second one network may ask a border manager for.
const DefaultFilterRate = 50_000

// upstreamRole returns the role that a file names, if it is one of upstreamRoles.
func upstreamRole(top field) string {
	r := &reader{}
	fs, ok := r.mapping(top, []string{"role"})
	if f, there := fs["role"]; ok && there {
		if s, isText := scalarText(f.node); isText {
			for _, role := range upstreamRoles {
				if s == role {
					return role
				}
			}
		}
	}
	return ""
}

// upstreamDocument reads a file of one of the three roles.
func (r *reader) upstreamDocument(c *Config, top field, role string) {
	c.Role, c.Services, r.role = role, nil, role
	fs, ok := r.mapping(top, namesOf("", role))
	if !ok {
		return
	}
	need := map[string][]string{
		RolePatrol:        {"ports"},
		RoleBorderManager: {"identity_file", "secret_file", "listen", "patrols"},
		RoleFilterManager: {"listen", "own"},
	}[role]
	for _, name := range need {
		if _, there := fs[name]; !there && !r.misspelled(name) {
			r.fail(top.line, name, "is missing; docs/upstream.md has an example")
		}
	}
	if f, there := fs["instance"]; there {
		if s, ok := r.name(f); ok {
			c.Instance = s
		}
	}
	if role != RoleFilterManager {
		r.take(fs, "xdp_mode", &c.XDPMode)
	}
	if role == RolePatrol {
		r.take(fs, "dispatcher", &c.Dispatcher)
		r.take(fs, "dispatcher_priority", &c.Priority)
	}
	r.metrics(c, fs)
	r.events(c, fs)
	_, static := fs["bindings"]
	if _, signed := fs["signed_bindings"]; role != RolePatrol && static == signed {
		r.fail(top.line, "bindings", "name either bindings, a file, or signed_bindings; docs/upstream.md has an example")
	}
	switch role {
	case RolePatrol:
		r.patrol(c, fs)
	case RoleBorderManager:
		r.border(c, fs)
	default:
		r.filterManager(c, fs)
	}
}

// path reads the path of a file.
func (r *reader) path(fs map[string]field, name string) string {
	f, there := fs[name]
	if !there {
		return ""
	}
	s, _ := r.text(f, "a path")
	if s != "" && !filepath.IsAbs(s) {
		s = filepath.Join(filepath.Dir(r.file), s)
	}
	return s
}

func (r *reader) address(fs map[string]field, name string) (a netip.AddrPort) {
	f, there := fs[name]
	if !there {
		return a
	}
	s, ok := r.text(f, "an address and port such as 192.0.2.1:4747")
	if !ok {
		return a
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		r.fail(f.line, f.path, "%q is not an address and port; write it like 192.0.2.1:4747 or [2001:db8::1]:4747", s)
	}
	return a
}

func (r *reader) prefixList(fs map[string]field, name string) []netip.Prefix {
	if f, there := fs[name]; there {
		return r.prefixes(f)
	}
	return nil
}

// key reads a public key.
func (r *reader) key(f field) string {
	s, ok := r.text(f, "a public key; `tidegate filter key FILE` prints one")
	if ok && !isKey(s) {
		r.fail(f.line, f.path, "%q is not a public key of 64 hex digits; `tidegate filter key FILE` prints one", s)
	}
	return s
}

// isKey reports whether a text is a public key.
func isKey(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// bitRate reads a rate such as 100mbit.
func (r *reader) bitRate(f field) uint64 {
	s, ok := r.text(f, "a rate such as 100mbit")
	if !ok {
		return 0
	}
	for unit, factor := range map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9} {
		if text, has := strings.CutSuffix(s, unit); has {
			if v, err := strconv.ParseFloat(text, 64); err == nil && v*factor >= 8e3 && v*factor <= 1e12 {
				return uint64(v * factor)
			}
		}
	}
	r.fail(f.line, f.path, "%q is not a rate; write it like 500kbit, 100mbit or 10gbit", s)
	return 0
}

func (r *reader) patrol(c *Config, fs map[string]field) {
	p := &Patrol{}
	c.Patrol = p
	p.Identity, p.SourcesFile = r.path(fs, "identity_file"), r.path(fs, "sources_file")
	p.Listen = r.address(fs, "listen")
	p.Sources = r.prefixList(fs, "sources")
	r.take(fs, "codepoint", &p.Codepoint)
	r.take(fs, "plain", &p.Plain)
	r.take(fs, "check_sources", &p.Check)
	if f, there := fs["codepoint"]; there && p.Codepoint == p.Plain {
		r.fail(f.line, f.path, "is the same as plain (%d), which marks nothing; use another", p.Plain)
	}
	r.take(fs, "forwarding", &p.Forwarding)
	r.take(fs, "max_filters", &p.MaxFilters)
	if f, there := fs["managers"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			p.Managers = append(p.Managers, r.key(it))
		}
	}
	if f, there := fs["exceptions"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			r.exception(p, it)
		}
	}
	if f, there := fs["ports"]; there {
		r.patrolPorts(c, p, f)
	}
	if f, there := fs["listen"]; there && (p.Identity == "" || len(p.Managers) == 0) {
		r.fail(f.line, f.path, "needs identity_file and managers: who may install filters, and who we are")
	}
}

func (r *reader) exception(p *Patrol, it field) {
	fs, ok := r.mapping(it, namesOf("exceptions", r.role))
	if !ok {
		return
	}
	e := Exception{}
	for name, to := range map[string]*netip.Prefix{"src": &e.Src, "dst": &e.Dst} {
		if f, there := fs[name]; there {
			*to, _ = r.prefix(f, f.path) // its mistake has been reported; !IsValid
		}
	}
	switch {
	case !e.Src.IsValid() && !e.Dst.IsValid():
		r.fail(it.line, it.path, "names neither src nor dst; name one prefix or both")
		return
	case !e.Src.IsValid():
		e.Src = netip.PrefixFrom(zeroOf(e.Dst), 0)
	case !e.Dst.IsValid():
		e.Dst = netip.PrefixFrom(zeroOf(e.Src), 0)
	}
	if e.Src.Addr().Is4() != e.Dst.Addr().Is4() {
		r.fail(it.line, it.path, "%s and %s are of different families; write two exceptions", e.Src, e.Dst)
		return
	}
	p.Exceptions = append(p.Exceptions, e)
}

func zeroOf(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (r *reader) patrolPorts(c *Config, p *Patrol, f field) {
	items, _ := r.sequence(f)
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("ports", r.role))
		if !ok {
			continue
		}
		var port PatrolPort
		if v, there := fs["interface"]; there {
			port.Interface, _ = r.text(v, "the name of an interface")
		} else {
			r.fail(it.line, it.path+".interface", "is missing; name one, see `ip link`")
		}
		if !r.take(fs, "ports.side", &port.Side) {
			r.fail(it.line, it.path+".side", "is missing; write customers or upstream")
		}
		if r.take(fs, "ports.neighbour", &port.Neighbour) && port.Side == SideCustomers {
			v := fs["neighbour"]
			r.fail(v.line, v.path, "belongs to side: upstream; remove it")
		}
		if v, there := fs["queue"]; there {
			port.QueueBits = r.bitRate(v)
		}
		if c.Interfaces = append(c.Interfaces, port.Interface); len(c.Interfaces) > MaxInterfaces {
			r.fail(it.line, f.path, "%d ports are too many; use at most %d", len(c.Interfaces), MaxInterfaces)
			return
		}
		for _, q := range p.Ports {
			if q.Interface == port.Interface {
				r.fail(it.line, it.path, "%s is listed twice; remove one", port.Interface)
			}
		}
		p.Ports = append(p.Ports, port)
	}
	if p.Forwarding == ForwardBridge && len(p.Ports) != 2 {
		r.fail(f.line, f.path, "a bridge has two ports, and %d are named; name two, or use forwarding: kernel", len(p.Ports))
	}
}

// signed reads where signed bindings come from.
func (r *reader) signed(fs map[string]field) (s Signed) {
	f, there := fs["signed_bindings"]
	if !there {
		return s
	}
	in, ok := r.mapping(f, namesOf("signed_bindings", r.role))
	if !ok {
		return s
	}
	for _, name := range []string{"anchors", "store"} {
		if _, there := in[name]; !there {
			r.fail(f.line, f.path+"."+name, "is missing; docs/bindings.md says what it is")
		}
	}
	s.Anchors, s.Store, s.Key = r.path(in, "anchors"), r.path(in, "store"), r.path(in, "key")
	if a := r.address(in, "listen"); a.IsValid() {
		s.Listen = a.String()
	}
	for name, to := range map[string]*[]string{"neighbours": &s.Neighbours, "publish": &s.Publish} {
		if v, there := in[name]; there {
			items, _ := r.sequence(v)
			for _, it := range items {
				if text, ok := r.text(it, "a text"); ok {
					*to = append(*to, text)
				}
			}
		}
	}
	if s.Key == "" && (s.Listen != "" || len(s.Neighbours)+len(s.Publish) > 0) {
		r.fail(f.line, f.path+".key", "is missing; flooding needs a key, made by `tidegate binding keygen FILE`")
	}
	return s
}

func (r *reader) border(c *Config, fs map[string]field) {
	b := &Border{}
	c.Border = b
	b.Identity, c.SecretFile, b.Bindings = r.path(fs, "identity_file"), r.path(fs, "secret_file"), r.path(fs, "bindings")
	b.Listen, b.Signed = r.address(fs, "listen"), r.signed(fs)
	b.Protect = r.prefixList(fs, "protect")
	r.take(fs, "codepoint", &b.Codepoint)
	r.take(fs, "rate", &b.Rate)
	if f, there := fs["interfaces"]; there {
		b.Interfaces = r.interfaces(f)
		c.Interfaces = b.Interfaces
	}
	f, there := fs["patrols"]
	if !there {
		return
	}
	items, _ := r.sequence(f)
	if len(items) == 0 || len(items) > MaxPatrols {
		r.fail(f.line, f.path, "name 1 to %d patrols", MaxPatrols)
	}
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("patrols", r.role))
		if !ok {
			continue
		}
		for _, name := range namesOf("patrols", r.role) {
			if _, there := fs[name]; !there {
				r.fail(it.line, fmt.Sprintf("%s.%s", it.path, name), "is missing; a patrol has name, address, key and prefixes")
			}
		}
		p := BorderPatrol{Address: r.address(fs, "address"), Prefixes: r.prefixList(fs, "prefixes")}
		if v, there := fs["name"]; there {
			p.Name, _ = r.name(v)
		}
		if v, there := fs["key"]; there {
			p.Key = r.key(v)
		}
		b.Patrols = append(b.Patrols, p)
	}
}

// detectors reads who may use the API of a filter manager from other machines.
func (r *reader) detectors(m *Filter, fs map[string]field) {
	m.APIListen, m.Identity = r.address(fs, "api_listen"), r.path(fs, "identity_file")
	f, there := fs["detectors"]
	if at, listens := fs["api_listen"]; listens && (m.Identity == "" || !there) {
		r.fail(at.line, at.path, "needs identity_file and detectors: who we are, and who may request filters")
	} else if there && !listens {
		r.fail(f.line, f.path, "needs api_listen: where they connect")
	}
	if !there {
		return
	}
	items, _ := r.sequence(f)
	if len(items) > MaxDetectors {
		r.fail(f.line, f.path, "%d detectors are too many; name at most %d", len(items), MaxDetectors)
		return
	}
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("detectors", r.role))
		if !ok {
			continue
		}
		var d FilterDetector
		for _, name := range []string{"name", "key"} {
			if _, there := fs[name]; !there {
				r.fail(it.line, fmt.Sprintf("%s.%s", it.path, name), "is missing; a detector has name and key")
			}
		}
		if v, there := fs["name"]; there {
			d.Name, _ = r.name(v)
		}
		if v, there := fs["key"]; there {
			d.Key = r.key(v)
		}
		r.take(fs, "detectors.filters", &d.Filters)
		if slices.ContainsFunc(m.Detectors, func(o FilterDetector) bool { return o.Name == d.Name || o.Key == d.Key }) {
			r.fail(it.line, it.path, "has the name or the key of another detector; each has its own")
		}
		m.Detectors = append(m.Detectors, d)
	}
}

func (r *reader) filterManager(c *Config, fs map[string]field) {
	m := &Filter{}
	c.Filter = m
	m.Listen, m.Signed = r.address(fs, "listen"), r.signed(fs)
	m.Bindings, m.API = r.path(fs, "bindings"), r.path(fs, "api")
	m.FiltersFile = r.path(fs, "filters_file")
	r.detectors(m, fs)
	m.Own, m.Never = r.prefixList(fs, "own"), r.prefixList(fs, "never")
	r.take(fs, "codepoint", &m.Codepoint)
	r.take(fs, "expires", &m.Expires)
	r.take(fs, "floor", &m.Floor)
	r.take(fs, "idle", &m.Idle)
	r.take(fs, "watch", &m.Watch)
	r.take(fs, "proof", &m.Proof)
	if f, there := fs["suricata"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			if s, ok := r.text(it, "the path of an eve.json"); ok {
				m.Suricata = append(m.Suricata, s)
			}
		}
	}
}
