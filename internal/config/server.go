// SPDX-License-Identifier: Apache-2.0

package config

// Takeover says how a server gets the connections that an edge has verified.
type Takeover string

// TakeoverAdopt: the kernel makes its socket from the edge's cookie.
const TakeoverAdopt Takeover = "adopt"

// TakeoverAuto: adopt where the kernel can, translate where it cannot, for each listener.
const TakeoverAuto Takeover = "auto"

// LastLine says what becomes of an ACK that has neither socket nor cookie.
type LastLine string

const (
	LastLineDrop  LastLine = "drop"  // silently: an attacker learns nothing of the edge's filter
	LastLineReset LastLine = "reset" // the kernel answers RST, as without an edge
)

// WithoutEdge says what becomes, at a server that adopts, of a SYN that no edge has answered.
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

// Server is what only the role server has.
type Server struct {
	Protocol Protocol
	Takeover Takeover
	LastLine LastLine
	Layout   Layout

	WithoutEdge WithoutEdge
}

func defaultServer() Server {
	return Server{Protocol: ProtocolPlain, Takeover: TakeoverAdopt, LastLine: LastLineDrop,
		Layout: LayoutTidegate, WithoutEdge: WithoutEdgeKernel}
}

func (r *reader) server(s *Server, fs map[string]field) {
	r.protocol(&s.Protocol, fs)
	if f, there := fs["last_line"]; there {
		if w, ok := r.word(f, string(LastLineDrop), string(LastLineReset)); ok {
			s.LastLine = LastLine(w)
		}
	}
	if f, there := fs["cookie_layout"]; there {
		if w, ok := r.word(f, string(LayoutTidegate), string(LayoutSmartcookie)); ok {
			s.Layout = Layout(w)
		}
	}
	if f, there := fs["takeover"]; there {
		w, ok := r.text(f, "adopt")
		switch {
		case !ok:
		case w == string(TakeoverAdopt):
		case w == string(TakeoverTranslate):
			s.Takeover = TakeoverTranslate
		case w == string(TakeoverAuto):
			s.Takeover = TakeoverAuto
		default:
			r.fail(f.line, f.path, "%q is not known; use auto, adopt or translate", w)
		}
	}
	if f, there := fs["without_edge"]; there {
		if w, ok := r.word(f, string(WithoutEdgeKernel), string(WithoutEdgeAnswer)); ok {
			s.WithoutEdge = WithoutEdge(w)
		}
		switch {
		case s.Takeover != TakeoverAdopt:
			r.fail(f.line, f.path, "goes with takeover: adopt; a server that translates always answers SYNs that no edge has answered")
		case s.WithoutEdge == WithoutEdgeAnswer && s.Layout == LayoutSmartcookie:
			r.fail(f.line, f.path, "answer needs cookie_layout: tidegate; with smartcookie, takeover: translate answers, too")
		}
	}
	if f, there := fs["protocol"]; there && s.Protocol == ProtocolTagged && s.Takeover == TakeoverAdopt {
		r.fail(f.line, f.path, "tagged needs takeover: translate; adopting servers need no tags, use plain")
	}
}
