// SPDX-License-Identifier: Apache-2.0

// Package survey reads what a machine does to packets (nftables, legacy iptables, connection
// tracking, links) and says for a destination whether the kernel can adopt its connections or
// they must be translated, and why. An adopted connection's SYN and SYN-ACK never cross
// netfilter: its first packet there is an ACK that carries a socket. The survey must only
// read: it changes no rule, loads no table, sends no packet. What it does not
// understand counts as a reason to translate.
package survey

import (
	"fmt"
	"net/netip"

	"tidegate/internal/config"
)

// Destination is where connections go to, as clients see it: before any translation of addresses.
type Destination struct {
	Addr       netip.Addr // unspecified: every address of its family
	Port       uint16
	Interfaces []string // where the SYNs come in; none: anywhere
}

// Finding is one thing that stands in the way of adoption.
type Finding struct {
	ID     string `json:"id"`     // stable: one of the constants below
	Reason string `json:"reason"` // one line
	Show   string `json:"show"`   // the command that shows it
}

// What is found.
const (
	NATHooks      = "nat-hooks"      // connection tracking with NAT: its hook takes the socket off the ACK
	DNAT          = "dnat"           // DNAT or redirect may take the destination elsewhere
	SYNRule       = "syn-rule"       // a rule treats SYNs unlike other segments
	NewNotSYN     = "new-not-syn"    // a rule drops connections that do not begin with a SYN
	AcceptSYN     = "accept-syn"     // only a SYN is accepted
	LooseOff      = "tcp-loose-off"  // connection tracking calls a connection without SYN invalid, and a rule looks at that
	Limit         = "limit"          // a rule limits or counts connections
	SYNProxy      = "synproxy"       // another SYN proxy
	TProxy        = "tproxy"         // another socket gets the connection
	Queue         = "queue"          // a program in userspace decides
	UnknownRule   = "unknown-rule"   // a rule that is not understood
	Unreadable    = "unreadable"     // rules could not be read
	BridgePort    = "bridge-port"    // the interface is a port of a bridge
	VirtualTenant = "virtual-tenant" // a macvlan or ipvlan device shares the interface
	LayerThree    = "layer-three"    // the interface has no Ethernet header
	VirtualServer = "virtual-server" // IPVS takes the destination
	DirectServer  = "direct-server"  // likewise, and its real servers answer past this machine: nothing here can be adopted or translated
	Program       = "program"        // a BPF program at a hook of netfilter
)

// Left is the takeover of what can be neither adopted nor translated: its SYNs must be left to the kernel.
const Left config.Takeover = "kernel"

// Verdict is what becomes of a destination.
type Verdict struct {
	Takeover config.Takeover `json:"takeover"` // adopt, translate or Left
	Findings []Finding       `json:"findings,omitempty"`
}

// Reason is why, in one line; empty for adopt.
func (v Verdict) Reason() string {
	switch len(v.Findings) {
	case 0:
		return ""
	case 1:
		return v.Findings[0].Reason
	}
	return fmt.Sprintf("%s (and %d more)", v.Findings[0].Reason, len(v.Findings)-1)
}

// Has says whether something was found.
func (v Verdict) Has(id string) bool {
	for _, f := range v.Findings {
		if f.ID == id {
			return true
		}
	}
	return false
}

// verdict is what the findings amount to; each place is named once.
func verdict(found []Finding) Verdict {
	v := Verdict{Takeover: config.TakeoverAdopt}
	seen := map[string]bool{}
	for _, f := range found {
		if key := f.ID + "\x00" + f.Show; !seen[key] {
			seen[key] = true
			v.Findings = append(v.Findings, f)
		}
	}
	if len(v.Findings) > 0 {
		v.Takeover = config.TakeoverTranslate
	}
	if v.Has(DirectServer) {
		v.Takeover = Left
	}
	return v
}
