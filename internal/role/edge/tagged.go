// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// tagLen is what a tag adds to a segment, docs/split-protocol.md.
const tagLen = 20

// writeTagged selects the protocol.
func (b *edge) writeTagged() error {
	if b.Cfg.Edge.Protocol != config.ProtocolTagged {
		return b.plane.SetTagged(plane.TaggedSettings{})
	}
	mtu := 65535
	for _, name := range b.Cfg.Edge.Inside {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		mtu = min(mtu, dev.Attrs().MTU)
	}
	const port = plane.ConfirmPort
	return b.plane.SetTagged(plane.TaggedSettings{Edge: uint16(b.Cfg.Tagged.EdgeID),
		ConfirmPortBe: port>>8 | port&0xff<<8, Mtu: uint32(mtu)})
}

// roomForTags is by how many bytes a service's MSS is reduced so that a client's full segments
// can carry a tag.
func (b *edge) roomForTags() uint16 {
	if b.Cfg.Edge.Protocol == config.ProtocolTagged {
		return tagLen
	}
	return 0
}

// putKeys loads the keys of an epoch: for cookies, in their layout, for tags and for confirmations.
func (b *edge) putKeys(n uint64) error {
	cookie := b.secret.EpochKey(n)
	if b.Cfg.Edge.Layout == config.LayoutSmartcookie {
		cookie = [keys.EpochKeyLen]byte{}
		half := b.secret.SmartKey(n)
		copy(cookie[:], half[:])
	}
	return errors.Join(b.plane.PutKey(n, cookie), b.plane.PutTagKeys(n, b.secret.TagKey(n), b.secret.ConfirmKey(n)))
}
