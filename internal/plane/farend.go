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
// 6.18). A container's end has none, and clients would wait for answers in vain. And it may lose the one that it has, with
// whoever runs it.

// errFarEnd is why native XDP is not used although the driver has it.
var errFarEnd = errors.New("veth whose far end runs no XDP program: in native XDP answers would not arrive there")

// errFarEndAgain is why generic XDP is left again.
var errFarEndAgain = errors.New("the far end of this veth runs an XDP program again")

// errHidden: the far end may be in a network namespace that cannot be asked.
var errHidden = errors.New("it cannot be looked at")

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
		return fmt.Errorf("%w (and %w: %w)", errFarEnd, errHidden, err)
	}
	if x := far.Attrs().Xdp; x == nil || !x.Attached || x.AttachMode == nl.XDP_ATTACHED_SKB {
		return errFarEnd
	}
	return nil
}

// FollowFarEnd has interfaces with `xdp_mode: auto` in the mode that the far end of their veth allows. If it has lost its program, no
// client gets an answer that native XDP sends: they go over to generic XDP. If one that was in generic XDP for that reason has a far end
// with a program again, they go back to native: what such a program redirects reaches no end in generic mode. Call it once a second: it
// acts when it has seen the same twice, as whoever replaces a program may take it off for a moment. For that time, and while the mode
// changes, SYNs are lost, or left to the kernel. It returns the new modes by interface.
func (p *Plane) FollowFarEnd() (turned map[string]XDPMode, err error) {
	if p.links == nil || !p.final || !p.farEnd || p.mode != XDPAuto {
		return nil, nil
	}
	seen, turned := map[string]bool{}, map[string]XDPMode{}
	for name, a := range p.links.xdp {
		h, ok := a.link.(linkHook)
		if !ok {
			continue // a dispatcher's mode is everybody's
		}
		index := h.ifindex()
		if index <= 0 || !p.isVeth(name, index) {
			continue
		}
		why := p.mustTurn(name, index)
		if why == nil {
			continue
		}
		if !p.turns[name] {
			seen[name] = true
			continue
		}
		if turnErr := p.turn(name, a, index); turnErr != nil {
			err = errors.Join(err, fmt.Errorf("interface %s: %w, and attaching in another mode failed: %w; SYNs pass unprotected: restart tidegate", name, why, turnErr))
			continue
		}
		turned[name] = attachedMode(index)
	}
	p.turns = seen
	return turned, err
}

// mustTurn returns why an interface should be in another mode; nil: it should not.
func (p *Plane) mustTurn(name string, index int) error {
	switch mode := attachedMode(index); {
	case mode == XDPNative:
		if why := farEnd(index); errors.Is(why, errFarEnd) && !errors.Is(why, errHidden) {
			return why
		}
	case mode == XDPGeneric && p.links.alone[name] && farEnd(index) == nil:
		return errFarEndAgain
	}
	return nil
}

// isVeth asks the kernel once for each interface.
func (p *Plane) isVeth(name string, index int) bool {
	is, known := p.veths[name]
	if known {
		return is
	}
	dev, err := netlink.LinkByIndex(index)
	if err != nil {
		return false
	}
	if p.veths == nil {
		p.veths = map[string]bool{}
	}
	p.veths[name] = dev.Type() == "veth"
	return p.veths[name]
}

// turn attaches anew, in the mode that the far end allows now.
func (p *Plane) turn(name string, a *attachment, index int) error {
	if err := a.detach(); err != nil {
		return err
	}
	p.links.forgetRefusal(name)
	if err := p.replaceLink(a, name, index, XDPAuto); err != nil {
		return err
	}
	_ = a.pinProgram() // without, only root can take this link over
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
