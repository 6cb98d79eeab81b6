// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Protocol says what goes from an edge to its servers.
type Protocol string

// ProtocolPlain: the client's own packet; the server verifies again.
const ProtocolPlain Protocol = "plain"

// Challenge is which SYNs of known flows an edge leaves to the servers.
type Challenge string

// The SYNs that an edge looks up in its filter.
const (
	ChallengeAll  Challenge = "all"
	ChallengeWeak Challenge = "weak" // without timestamps, or whose cookie is in the layout smartcookie
)

// Edge is what only the role edge has.
type Edge struct {
	Protocol     Protocol
	Forwarding   Forwarding
	FastPath     FastPath
	Inside       []string // interfaces that servers are behind; the others are clients'
	FilterBits   int      // positions of a partition of the filter, as a power of two
	FilterWindow time.Duration
	Learning     time.Duration // how long an edge with a new filter leaves unknown flows to the servers
	FilterAlarm  float64       // share of unknown flows taken for known; above, status says alarm
	UnknownRate  Rate
	Challenge    Challenge
	Hops         int // TTL of what is forwarded to a server, and the least it must have; 0: left unchanged
	SACK         bool
	Timestamps   bool
	ECN          bool
	Layout       Layout // of cookies
}

// Rate is packets per second, or all of them.
type Rate struct {
	All       bool
	PerSecond int
}

func (r Rate) String() string {
	if r.All {
		return "all"
	}
	return strconv.Itoa(r.PerSecond)
}

// SplitWScale is the window scale that edges announce and servers adopt with, unless
// a service says another: it must be the same on both.
const SplitWScale = 7

const (
	// Of core/bloom.h; 2^26 positions a partition are 96 MiB.
	minFilterBits, maxFilterBits     = 10, 26
	minFilterWindow, maxFilterWindow = time.Second, time.Hour
	maxUnknownRate                   = 100_000_000
	maxHops                          = 64
)

// split reads the fields of the top level that have to do with edges, servers and
// clocks that differ.
func (r *reader) split(c *Config, fs map[string]field) {
	// One bit identifies a cookie's epoch, so the time by which clocks may differ is taken from the time that a
	// handshake may last; core/keys.h has the arithmetic. A switch has no second key to try.
	if c.Plane != PlaneP4 {
		r.take(fs, "clock_skew", &c.ClockSkew)
	}
	r.roll(c, fs)
	switch c.Role {
	case RoleEdge:
		c.Server = Server{}
		r.edge(&c.Edge, c, fs)
	case RoleServer:
		c.Edge = Edge{}
		r.server(&c.Server, fs)
	case RoleHost:
		c.Edge = Edge{}
		r.host(&c.Server, fs)
	default:
		c.Edge, c.Server = Edge{}, Server{}
	}
	r.tagged(c, fs)
}

func (r *reader) edge(e *Edge, c *Config, fs map[string]field) {
	r.take(fs, "protocol", &e.Protocol)
	r.take(fs, "forwarding", &e.Forwarding)
	r.take(fs, "fast_path", &e.FastPath)
	e.Inside = r.inside(c, fs)
	if f, there := fs["interfaces"]; there && e.Forwarding == ForwardBridge && len(c.Interfaces) != 2 {
		r.fail(f.line, "interfaces", "a bridge has two ports, and %d are named; name two, or use forwarding: router", len(c.Interfaces))
	}
	r.take(fs, "filter_bits", &e.FilterBits)
	r.take(fs, "hops", &e.Hops)
	r.take(fs, "filter_window", &e.FilterWindow)
	r.take(fs, "learning", &e.Learning)
	r.take(fs, "filter_alarm", &e.FilterAlarm)
	r.take(fs, "unknown_rate", &e.UnknownRate)
	r.take(fs, "challenge", &e.Challenge)
	all := fieldOf("offers", r.role, PlaneXDP).Default == "all"
	e.SACK, e.Timestamps, e.ECN = all, all, all
	if f, there := fs["offers"]; there {
		r.offers(f, e)
	}
	r.edgeLayout(e, fs)
}

// edgeLayout reads how cookies are laid out. The layout smartcookie has no room for what
// `offers` names, and a tag does not carry it.
func (r *reader) edgeLayout(e *Edge, fs map[string]field) {
	written := r.take(fs, "cookie_layout", &e.Layout)
	if e.Layout != LayoutSmartcookie {
		return
	}
	defer func() { e.SACK, e.Timestamps, e.ECN = false, false, false }()
	if !written || r.plane == PlaneP4 {
		return
	}
	f := fs["cookie_layout"]
	if o, there := fs["offers"]; there && (e.SACK || e.Timestamps || e.ECN) {
		r.fail(o.line, o.path, "cookie_layout: smartcookie can restore none of them; remove offers")
	}
	if e.Protocol == ProtocolTagged {
		r.fail(f.line, f.path, "smartcookie goes with protocol: plain; tags are of edges with our own layout")
	}
}

// inside reads which of the interfaces lead to the servers.
func (r *reader) inside(c *Config, fs map[string]field) []string {
	f, there := fs["inside"]
	if !there {
		if i, has := fs["interfaces"]; has && !r.misspelled("inside") {
			r.fail(i.line, "inside", "is missing; name those of interfaces that the servers are behind, such as [eth1]")
		}
		return nil
	}
	inside := r.interfaces(f)
	for _, name := range inside {
		if !slices.Contains(c.Interfaces, name) {
			r.fail(f.line, f.path, "%s is not one of interfaces; list it there, too", name)
			return nil
		}
	}
	if len(c.Interfaces) > 0 && len(inside) == len(c.Interfaces) {
		r.fail(f.line, f.path, "no interface is left for clients; list those in interfaces, too")
	}
	return inside
}

// share reads a percentage or a part of one.
func (r *reader) share(f field, to *float64) {
	const want = "a share such as 20% or 0.2, above 0 and at most 100%"
	s, ok := r.text(f, want)
	if !ok {
		return
	}
	v, err := parseShare(s)
	if err != nil || !(v > 0 && v <= 1) {
		r.fail(f.line, f.path, "%q is not a share; use %s", s, want)
		return
	}
	*to = v
}

func parseShare(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		v /= 100
	}
	return v, err
}

// rate reads packets per second.
func (r *reader) rate(f field, of *Field, to *Rate) {
	if s, ok := scalarText(f.node); ok && s == "all" {
		*to = Rate{All: true}
		return
	}
	if n, ok := r.number(f, int(of.Low), int(of.High)); ok {
		*to = Rate{PerSecond: n}
	}
}

// FourEpochs reports whether the clock skew exceeds what two epochs of keys cover.
func (c *Config) FourEpochs() bool { return c.ClockSkew > c.Epoch*3/8 }

// offers reads what TCP options the servers agree to.
func (r *reader) offers(f field, e *Edge) {
	items, ok := r.sequence(f)
	if !ok {
		return
	}
	e.SACK, e.Timestamps, e.ECN = false, false, false
	for _, it := range items {
		s, ok := r.word(it, fieldOf("offers", r.role, PlaneXDP).Words...)
		if !ok {
			continue
		}
		*map[string]*bool{"sack": &e.SACK, "timestamps": &e.Timestamps, "ecn": &e.ECN}[s] = true
	}
}
