// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// What our SYN-ACKs offer where the configuration says `auto`: the values of untuned Linux servers. The server role
// assumes the same window scale.
const (
	defaultWScale = config.SplitWScale
	defaultWindow = 64240
)

// targets converts the services for the packet path.
func (b *edge) targets() ([]plane.Target, error) {
	return b.Targets(plane.Service{Window: defaultWindow, Wscale: defaultWScale, Sack: flag(b.Cfg.Edge.SACK),
		Timestamps: flag(b.Cfg.Edge.Timestamps), Ecn: flag(b.Cfg.Edge.ECN)}, b.roomForTags())
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
