// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A frame that XDP sends back through a veth (XDP_TX) is delivered only if the far end runs an XDP
// program, too: otherwise veth_xdp_flush in drivers/net/veth.c wakes nothing, GRO or not (to Linux
// 6.18). A container's end has none, and clients would wait for answers in vain.

// errFarEnd is why native XDP is not used although the driver has it.
var errFarEnd = errors.New("veth whose far end runs no XDP program: in native XDP answers would not arrive there")

// farEnd returns why answers that native XDP sends through a device would be lost; nil: they are not.
func farEnd(index int) error {
	dev, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	if dev.Type() != "veth" {
		return nil
	}
	at := dev.Attrs()
	far, err := linkIn(at.NetNsID, at.ParentIndex)
	if err != nil {
		return fmt.Errorf("%w (and it cannot be looked at: %w)", errFarEnd, err)
	}
	if x := far.Attrs().Xdp; x == nil || !x.Attached || x.AttachMode == nl.XDP_ATTACHED_SKB {
		return errFarEnd
	}
	return nil
}

// linkIn reads a device of this network namespace (-1), or of the one with this ID here.
func linkIn(namespace, index int) (netlink.Link, error) {
	if namespace < 0 {
		return netlink.LinkByIndex(index)
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(namespace))))
	answers, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, fmt.Errorf("the kernel describes %d devices", len(answers))
	}
	return netlink.LinkDeserialize(nil, answers[0])
}
