// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"sync/atomic"
	"time"

	"tidegate/internal/plane/proxybpf"
)

// Copies of flows that are near, core/near_flow.h, pay while most segments find one. Where far more flows send than there are places, each segment would ask
// in vain first, and take a cache miss more: then the copies are off for a while.

const (
	nearWords   = 8 // of an entry, struct tg_near_flow; the fifth has the turn in its upper half, the seventh is 0 if the entry is forgotten
	nearRest    = 30 * time.Second
	nearMostOff = 16 // off when all but one in so many places are taken
)

// WatchNear decides whether copies of flows are kept near, for the next second or so.
func (p *Proxy) WatchNear(now time.Time) error {
	if p.own.Near == 0 {
		if now.Before(p.nearAgain) {
			return nil
		}
		p.own.Near = 1
		p.own.FlowsTurn++ // copies from before are none
		return p.SetProxy(p.own)
	}
	held, places, err := p.nearHeld()
	if err != nil || held < places-places/nearMostOff {
		return err
	}
	p.own.Near, p.nearAgain = 0, now.Add(nearRest)
	return p.SetProxy(p.own)
}

// ForgetNear ends all copies: what flows are to be translated has changed.
func (p *Proxy) ForgetNear() error {
	p.own.FlowsTurn++
	return p.SetProxy(p.own)
}

// nearHeld counts the places that are taken.
func (p *Proxy) nearHeld() (held, places int, err error) {
	err = Entries(p.maps[proxybpf.ProxyXdpMapTgFlowsNear], false, func(words []uint64) {
		places = len(words) / nearWords
		for at := 0; at < len(words); at += nearWords {
			if atomic.LoadUint64(&words[at+4])>>32 == uint64(p.own.FlowsTurn) && atomic.LoadUint64(&words[at+6]) != 0 {
				held++
			}
		}
	})
	return held, places, err
}
