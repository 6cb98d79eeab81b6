// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Offer is what a SYN-ACK of a server's kernel offers for a service (RFC 9293, 7323, 2018, 3168): edges that answer for the server offer the
// same, and the server adopts with the same window scale.
type Offer struct {
	MSSv4      uint16 `yaml:"mss_v4" json:"mss_v4"` // bytes
	MSSv6      uint16 `yaml:"mss_v6" json:"mss_v6"`
	WScale     uint8  `yaml:"wscale" json:"wscale"` // the shift; NoWScale: the option is not agreed to
	Window     uint16 `yaml:"window" json:"window"` // of the SYN-ACK, which is never scaled
	SACK       bool   `yaml:"sack" json:"sack"`
	Timestamps bool   `yaml:"timestamps" json:"timestamps"`
	ECN        bool   `yaml:"ecn" json:"ecn"`
}

// NoWScale is the window scale of a server that agrees to none.
const NoWScale = 15

// Bounds of an offer: an MSS of less makes more headers than data (RFC 9293 section 3.7.1 has 536 as the default), and a window of less than a
// segment makes clients wait.
const (
	leastOfferedMSS    = 536
	leastOfferedWindow = 536
)

// Validate refuses what no server that serves anybody offers. It bounds what a node in the wrong hands can make edges say.
func (o *Offer) Validate() error {
	switch {
	case o.MSSv4 < leastOfferedMSS || o.MSSv6 < leastOfferedMSS:
		return fmt.Errorf("mss_v4 %d, mss_v6 %d: want at least %d", o.MSSv4, o.MSSv6, leastOfferedMSS)
	case o.WScale > maxWScale && o.WScale != NoWScale:
		return fmt.Errorf("wscale %d: want 0 to %d, or %d for none", o.WScale, maxWScale, NoWScale)
	case o.Window < leastOfferedWindow:
		return fmt.Errorf("window %d: want at least %d", o.Window, leastOfferedWindow)
	}
	return nil
}

// Least is what servers of both kinds can keep: a client sends no larger segment than both take, and uses no option that one of them
// refuses. With the smaller window scale, a server with a larger buffer cannot announce all of it.
func (o Offer) Least(p Offer) Offer {
	scale := min(o.WScale, p.WScale)
	if o.WScale == NoWScale || p.WScale == NoWScale {
		scale = NoWScale
	}
	return Offer{MSSv4: min(o.MSSv4, p.MSSv4), MSSv6: min(o.MSSv6, p.MSSv6), WScale: scale, Window: min(o.Window, p.Window),
		SACK: o.SACK && p.SACK, Timestamps: o.Timestamps && p.Timestamps, ECN: o.ECN && p.ECN}
}

func (o Offer) String() string {
	words := []string{fmt.Sprintf("MSS %d and %d", o.MSSv4, o.MSSv6)}
	if o.WScale == NoWScale {
		words = append(words, "no window scale")
	} else {
		words = append(words, fmt.Sprintf("window scale %d", o.WScale))
	}
	words = append(words, fmt.Sprintf("window %d", o.Window))
	for _, option := range []struct {
		on   bool
		name string
	}{{o.SACK, "SACK"}, {o.Timestamps, "timestamps"}, {o.ECN, "ECN"}} {
		if !option.on {
			option.name = "no " + option.name
		}
		words = append(words, option.name)
	}
	return strings.Join(words, ", ")
}

// Offers are what a fleet has edges offer, by name of service.
type Offers map[string]Offer

// Validate names the service whose offer is impossible.
func (o Offers) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		offer := o[name]
		if err := offer.Validate(); err != nil {
			return fmt.Errorf("offers.%s: %w", name, err)
		}
	}
	return nil
}

// Override gives the services of an edge, or of a server behind edges, what the fleet has them offer.
func (o Offers) Override(c *Config) {
	if c.Role != RoleServer && (c.Role != RoleEdge || c.Plane != PlaneXDP) { // a server has no choice of planes
		return
	}
	for i := range c.Services {
		if offer, there := o[c.Services[i].Name]; there {
			c.Services[i].Offer = &offer
		}
	}
}
