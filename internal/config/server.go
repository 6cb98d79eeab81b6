// SPDX-License-Identifier: Apache-2.0

package config

// Takeover says how a server gets the connections that an edge has verified.
type Takeover string

// TakeoverAdopt: the kernel makes its socket from the edge's cookie.
const TakeoverAdopt Takeover = "adopt"

// TakeoverAuto: adopt where the kernel can, translate where it cannot, for each listener.
const TakeoverAuto Takeover = "auto"

// UnmatchedACK says what happens to an ACK that has neither socket nor cookie: the final ACK check.
type UnmatchedACK string

const (
	UnmatchedDrop  UnmatchedACK = "drop"  // silently: an attacker learns nothing about the edge's filter
	UnmatchedReset UnmatchedACK = "reset" // the kernel answers RST, as without an edge
)

// WithoutEdge says what happens, at a server that adopts, to a SYN that no edge has answered.
type WithoutEdge string

const (
	WithoutEdgeKernel WithoutEdge = "kernel" // its kernel answers, with SYN cookies of its own when it is flooded
	WithoutEdgeAnswer WithoutEdge = "answer" // we answer, as an edge would; this takes the XDP place of the interfaces
)

// Layout says how the gate before the server lays out its cookies.
type Layout string

const (
	LayoutTidegate    Layout = "tidegate"    // edges of ours in XDP
	LayoutSmartcookie Layout = "smartcookie" // edges in P4, or beside such
)

// Server is what only the role server has, but for Takeover, which hosts have, too.
type Server struct {
	Protocol     Protocol
	Takeover     Takeover
	UnmatchedACK UnmatchedACK
	Layout       Layout

	WithoutEdge WithoutEdge

	HalfOpenRate int // of a host: SYNs a second that its kernel remembers
}

func (r *reader) server(s *Server, fs map[string]field) {
	r.take(fs, "protocol", &s.Protocol)
	r.take(fs, "unmatched_ack", &s.UnmatchedACK)
	r.take(fs, "cookie_layout", &s.Layout)
	r.take(fs, "takeover", &s.Takeover)
	if r.take(fs, "without_edge", &s.WithoutEdge) {
		f := fs["without_edge"]
		switch {
		case s.Takeover != TakeoverAdopt:
			r.fail(f.line, f.path, "goes with takeover: adopt; a server that translates always answers SYNs that no edge has answered")
		case s.WithoutEdge == WithoutEdgeAnswer && s.Layout == LayoutSmartcookie:
			r.fail(f.line, f.path, "answer needs cookie_layout: tidegate; with smartcookie, takeover: translate answers, too")
		}
	}
	for _, name := range []string{"allow_list", "deny_list"} {
		if f, there := fs[name]; there && s.Takeover == TakeoverAdopt && s.WithoutEdge != WithoutEdgeAnswer {
			r.fail(f.line, f.path, "of a server that adopts needs without_edge: answer, so that SYNs are answered here")
		}
	}
	if f, there := fs["protocol"]; there && s.Protocol == ProtocolTagged && s.Takeover == TakeoverAdopt {
		r.fail(f.line, f.path, "tagged needs takeover: translate; adopting servers need no tags, use plain")
	}
}

// host reads the server fields that hosts have, too.
func (r *reader) host(s *Server, fs map[string]field) {
	*s = Server{}
	r.take(fs, "takeover", &s.Takeover)
	r.take(fs, "half_open_rate", &s.HalfOpenRate)
}
