// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// ProtocolTagged: segments carry a tag until the server confirms the connection
// (docs/split-protocol.md).
const ProtocolTagged Protocol = "tagged"

// TakeoverTranslate: the kernel does the handshake with its own sequence numbers, and every
// segment is translated.
const TakeoverTranslate Takeover = "translate"

// MaxEdges is the highest number that an edge can have.
const MaxEdges = 255

// SplitEdge is where one edge is, for the server's confirmations.
type SplitEdge struct {
	ID     int
	V4, V6 netip.Addr // zero: it has none
}

// Tagged is what edge and server have only in protocol `tagged`, or to
// translate.
type Tagged struct {
	EdgeID         int          // of an edge
	Peers          []netip.Addr // of an edge: other edges, which learn its flows
	Edges          []SplitEdge  // of a server
	MaxConnections int          // of a server
	IdleTime       time.Duration
	SourceShare    float64 // of MaxConnections, that one source may hold without giving way
}

// SourceFloor is how many connections one source may hold without giving way to others.
func (t *Tagged) SourceFloor() uint32 {
	return uint32(max(minSourceConnections, t.SourceShare*float64(t.MaxConnections)))
}

const (
	maxMaxConnections    = 1 << 24
	minSourceConnections = 8 // that each source may hold, however small the share
	minIdleTime          = 10 * time.Second
	maxIdleTime          = 72 * time.Hour // the table's clock wraps after 78
)

func (r *reader) tagged(c *Config, fs map[string]field) {
	t := &c.Tagged
	*t = Tagged{}
	switch c.Role {
	case RoleEdge:
		r.taggedEdge(t, c, fs)
	case RoleServer, RoleHost:
		r.taggedServer(t, c, fs)
	}
}

func (r *reader) taggedEdge(t *Tagged, c *Config, fs map[string]field) {
	if r.take(fs, "edge_id", &t.EdgeID) {
	} else if f, there := fs["protocol"]; there && c.Edge.Protocol == ProtocolTagged {
		r.fail(f.line, "edge_id", "is missing; protocol: tagged needs the number, 1 to %d, by which the servers' `edges` know this edge", MaxEdges)
	}
	f, there := fs["peers"]
	if !there {
		return
	}
	items, ok := r.sequence(f)
	if !ok {
		return
	}
	for _, it := range items {
		s, ok := r.text(it, "an address such as 198.51.100.2")
		if !ok {
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			r.fail(it.line, it.path, "%q is not an address; use one such as 198.51.100.2 or 2001:db8::2", s)
			continue
		}
		t.Peers = append(t.Peers, a)
	}
}

func (r *reader) taggedServer(t *Tagged, c *Config, fs map[string]field) {
	r.take(fs, "max_connections", &t.MaxConnections)
	r.take(fs, "source_share", &t.SourceShare)
	r.take(fs, "idle_time", &t.IdleTime)
	f, there := fs["edges"]
	if !there {
		if p, has := fs["protocol"]; has && c.Server.Protocol == ProtocolTagged {
			r.fail(p.line, "edges", "is missing; protocol: tagged needs to know where confirmations go: [\"1 198.51.100.2 2001:db8::2\"]")
		}
		return
	}
	items, ok := r.sequence(f)
	if !ok {
		return
	}
	for _, it := range items {
		if s, ok := r.text(it, "an edge such as \"1 198.51.100.2 2001:db8::2\""); ok {
			r.splitEdge(t, it, s)
		}
	}
}

func (r *reader) splitEdge(t *Tagged, f field, s string) {
	const want = "a number from 1 to 255 and its addresses, one of each family, such as \"1 198.51.100.2 2001:db8::2\""
	words := strings.Fields(s)
	var e SplitEdge
	var err error
	if len(words) < 2 || len(words) > 3 {
		r.fail(f.line, f.path, "%q: want %s", s, want)
		return
	}
	if e.ID, err = strconv.Atoi(words[0]); err != nil || e.ID < 1 || e.ID > MaxEdges {
		r.fail(f.line, f.path, "%q: want %s", s, want)
		return
	}
	for _, w := range words[1:] {
		a, err := netip.ParseAddr(w)
		to := &e.V6
		if a.Is4() {
			to = &e.V4
		}
		if err != nil || to.IsValid() {
			r.fail(f.line, f.path, "%q: want %s", s, want)
			return
		}
		*to = a
	}
	for _, other := range t.Edges {
		if other.ID == e.ID {
			r.fail(f.line, f.path, "edge %d is there already; each number belongs to one edge", e.ID)
			return
		}
	}
	t.Edges = append(t.Edges, e)
}
