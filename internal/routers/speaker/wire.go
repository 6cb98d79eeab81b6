// SPDX-License-Identifier: Apache-2.0

// Package speaker runs tidegate-bgp, the program that speaks BGP: it starts it, tells it what to announce, and reads how its sessions are.
// It must decide nothing, and know no BGP message.
package speaker

import (
	"net/netip"
	"time"

	"tidegate/internal/routers"
)

// What crosses the program's standard input and output: an object of JSON a line.

// Order is a line to the program. The first has the settings; every later one has all paths that are to be announced. The program ends,
// and with it its sessions and routes, when its input does, or when no order has come for OrderTime.
type Order struct {
	Settings *Settings `json:"settings,omitempty"`
	Paths    []Path    `json:"paths"`
}

// OrderTime is how long no order may come: who gives them does so at least every OrderEvery, changed or not.
const (
	OrderEvery = time.Second
	OrderTime  = 15 * time.Second
)

// Settings are those of the sessions.
type Settings struct {
	AS       uint32     `json:"as"`
	RouterID netip.Addr `json:"router_id"`
	HoldTime int        `json:"hold_time"` // seconds
	Peers    []Peer     `json:"peers"`
}

// Peer is a router. Sessions are opened to it; nothing is listened on. An IPv4 peer gets IPv4 routes, an IPv6 peer IPv6 routes.
type Peer struct {
	Address  netip.Addr `json:"address"`
	Port     uint16     `json:"port"`
	AS       uint32     `json:"as"`
	Local    netip.Addr `json:"local,omitzero"`
	Password string     `json:"password,omitempty"` // TCP MD5, RFC 2385
	Hops     int        `json:"hops"`               // to the router, at most
	GTSM     bool       `json:"gtsm"`               // RFC 5082: send with TTL 255, as the router requires
	Flow     bool       `json:"flow"`               // it takes FlowSpec
}

// Path is what is announced of one route.
type Path struct {
	Prefix      netip.Prefix `json:"prefix"`
	NextHop     netip.Addr   `json:"next_hop,omitzero"` // none: this machine
	Communities []uint32     `json:"communities,omitempty"`
	Flow        bool         `json:"flow,omitempty"` // discard TCP from Prefix to To
	To          netip.Prefix `json:"to,omitzero"`
}

// Report is a line from the program: all sessions, whenever one changes and every OrderEvery.
type Report struct {
	Peers []routers.Session `json:"peers"`
	Paths int               `json:"paths"`           // announced
	Error string            `json:"error,omitempty"` // why the last order could not be followed
}
