// SPDX-License-Identifier: Apache-2.0

package dispatcher

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Of linux/if_link.h.
const (
	attrFD, attrFlags, attrExpectedFD = 1, 3, 8

	flagOnlyIfNone = 1 << 0
	flagGeneric    = 1 << 1
	flagNative     = 1 << 2
	flagReplace    = 1 << 4
)

// attached returns which program an interface runs.
func (p Place) attached() (id ebpf.ProgramID, generic bool, err error) {
	dev, err := netlink.LinkByIndex(p.Ifindex)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return 0, false, unix.ENODEV
	}
	if err != nil {
		return 0, false, err
	}
	x := dev.Attrs().Xdp
	if x == nil || !x.Attached {
		return 0, p.Generic, nil
	}
	if x.ProgId == 0 {
		return 0, false, fmt.Errorf("%s: %w: it runs programs in several modes", dev.Attrs().Name, ErrForeign)
	}
	return ebpf.ProgramID(x.ProgId), x.AttachMode == nl.XDP_ATTACHED_SKB, nil
}

// attach replaces before by next, if before is what is attached; nil stands for none. EEXIST, EBUSY: it is not.
func (p Place) attach(next, before *ebpf.Program) error {
	flags, expected, fd := uint32(flagNative), int32(-1), int32(-1)
	if p.Generic {
		flags = flagGeneric
	}
	if next != nil {
		fd = int32(next.FD())
	}
	if before != nil {
		flags, expected = flags|flagReplace, int32(before.FD())
	} else {
		flags |= flagOnlyIfNone
	}
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(p.Ifindex)
	req.AddData(msg)
	xdp := nl.NewRtAttr(unix.IFLA_XDP|unix.NLA_F_NESTED, nil)
	xdp.AddRtAttr(attrFD, nl.Uint32Attr(uint32(fd)))
	xdp.AddRtAttr(attrFlags, nl.Uint32Attr(flags))
	if before != nil {
		xdp.AddRtAttr(attrExpectedFD, nl.Uint32Attr(uint32(expected)))
	}
	req.AddData(xdp)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
