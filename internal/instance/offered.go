// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"maps"
	"sync"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// Offered is where a server says what its kernel offers in the SYN-ACKs of each service, for its fleet. The zero value and nil are ready to use.
type Offered struct {
	mu  sync.Mutex
	now config.Offers
}

// Set replaces them.
func (o *Offered) Set(offers config.Offers) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = offers
}

// All are those of now.
func (o *Offered) All() config.Offers {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.now)
}

// OfferOf is the offer that an entry of the packet path stands for.
func OfferOf(s *plane.Service) config.Offer {
	return config.Offer{MSSv4: s.MssV4, MSSv6: s.MssV6, WScale: s.Wscale, Window: s.Window, SACK: s.Sack != 0, Timestamps: s.Timestamps != 0, ECN: s.Ecn != 0}
}

// offer has an edge offer what a service's servers do, as far as the edge itself goes: `room` bytes of each segment are the edge's,
// its own interfaces may carry less, and what `offers` and the cookie layout leave out stays out.
func offer(s *plane.Service, o *config.Offer, room uint16) {
	if o == nil {
		return
	}
	s.MssV4, s.MssV6 = min(s.MssV4, o.MSSv4-room), min(s.MssV6, o.MSSv6-room)
	s.Wscale, s.Window = o.WScale, o.Window
	s.Sack, s.Timestamps, s.Ecn = s.Sack&Flag(o.SACK), s.Timestamps&Flag(o.Timestamps), s.Ecn&Flag(o.ECN)
}
