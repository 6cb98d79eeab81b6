// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/binary"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// The most that our SYN-ACKs offer where the configuration says `auto`: an option a
// server does not offer is not offered to its clients; see docs/proxy.md.
const (
	defaultWScale = 7
	defaultWindow = 64240 // of challenges, and with first_data: notify
)

// targets converts the services for the packet path.
func (b *proxy) targets() ([]plane.Target, error) {
	return b.Targets(plane.Service{Window: defaultWindow, Wscale: defaultWScale, Sack: 1, Timestamps: 1, Ecn: 1}, 0)
}

// plain is 1 if a verified source is all that counts for a segment: nothing is translated, and no service needs samples.
func plain(flows uint8, targets []plane.Target) uint8 {
	if flows != 0 || slices.ContainsFunc(targets, func(t plane.Target) bool { return t.Service.Automatic != 0 }) {
		return 0
	}
	return 1
}

// proxyService is a service's entry for the packet path, beyond what every gate has.
func proxyService(svc *config.Service, strategy uint8) plane.ProxyService {
	s := plane.ProxyService{Strategy: strategy, FirstData: plane.FirstDataZeroWindow}
	if svc.FirstData == config.FirstDataNotify {
		s.FirstData = plane.FirstDataNotify
	}
	if svc.DeferAccept {
		s.DeferAccept = 1
	}
	if !svc.MSS.Auto {
		s.Fixed |= plane.FixedMSS
	}
	if !svc.WScale.Auto {
		s.Fixed |= plane.FixedWScale
	}
	return s
}

// prefixMask is the first half of an IPv6 address with its first bits set, as the
// packet path loads it.
func prefixMask(bits int) uint64 {
	var wire [8]byte
	binary.BigEndian.PutUint64(wire[:], ^uint64(0)<<(64-bits))
	return binary.LittleEndian.Uint64(wire[:])
}

// prefixMask4 is an IPv4 address with its first bits set, as the packet path loads it.
func prefixMask4(bits int) uint32 {
	var wire [4]byte
	binary.BigEndian.PutUint32(wire[:], ^uint32(0)<<(32-bits))
	return binary.LittleEndian.Uint32(wire[:])
}

// sides detects that the answers of servers do not come back through this proxy.
type sides struct {
	opened, answered uint64
	since            time.Time
	warned           bool
}

const (
	sidesEvery = 5 * time.Second
	sidesFew   = 20 // connections; fewer prove nothing
)

// watchSides compares, every few seconds, connections begun with answers seen.
// `cookie` and `cache` need both directions of a connection to pass here.
func (b *proxy) watchSides() {
	now := time.Now()
	if now.Sub(b.watch.since) < sidesEvery {
		return
	}
	var opened, answered uint64
	for _, svc := range b.Cfg.Services {
		sum, err := plane.ReadCounters(b.plane.Map("tg_counters"), b.Numbers.ID(svc.Name))
		if err != nil {
			return
		}
		opened += sum[schema.CounterFlowOpened]
		answered += sum[schema.CounterFlowReady] + sum[schema.CounterFlowRefused] + sum[schema.CounterFlowOlder]
	}
	if b.seeSides(now, opened, answered) {
		if err := instance.WriteState(b.Opt.StateDir, b.state()); err != nil {
			b.Log.Error("state file", "error", err)
		}
	}
}

// seeSides records the counts and logs what they mean; true if that has changed.
func (b *proxy) seeSides(now time.Time, opened, answered uint64) bool {
	before := b.watch
	b.watch = sides{opened: opened, answered: answered, since: now, warned: before.warned}
	switch {
	case before.since.IsZero():
	case answered > before.answered:
		b.watch.warned = false
	case opened-before.opened >= sidesFew:
		b.watch.warned = true
	}
	if b.watch.warned == before.warned {
		return false
	}
	if b.watch.warned {
		b.Log.Warn("only one direction of the traffic passes here: connections to servers are opened and no answer is seen; strategies cookie and cache need symmetric paths (or the servers are down)",
			"begun", opened-before.opened)
	} else {
		b.Log.Info("both directions of the traffic pass here again")
	}
	return true
}
