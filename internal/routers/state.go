// SPDX-License-Identifier: Apache-2.0

package routers

import (
	"net/netip"
	"time"
)

// State is what `status` and the API show.
type State struct {
	Running  bool           `json:"running"` // the program that speaks BGP
	Error    string         `json:"error,omitempty"`
	Sessions []Session      `json:"sessions"`
	Routes   []Announcement `json:"routes"`            // that discard
	Service  *ServiceState  `json:"service,omitempty"` // nil: no prefixes of services
	Refused  uint64         `json:"offences_refused"`
	Spared   uint64         `json:"offences_spared"`
}

// ServiceState is whether the prefixes of services are announced.
type ServiceState struct {
	Prefixes  []netip.Prefix `json:"prefixes"`
	Announced bool           `json:"announced"`
	Why       string         `json:"why,omitempty"` // if they are not
}

// Session is one with a router.
type Session struct {
	Address netip.Addr `json:"address"`
	AS      uint32     `json:"as"`
	State   string     `json:"state"` // of the state machine of RFC 4271, in lower case
	Up      bool       `json:"up"`
	Since   time.Time  `json:"since"` // it came up or went down
	Flaps   uint64     `json:"flaps"` // times that it went down
	Why     string     `json:"why,omitempty"`
}
