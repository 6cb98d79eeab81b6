// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel's part of Open vSwitch, by its own netlink families (linux/openvswitch.h): what ovs-vswitchd would set up, without it.

// Numbers of linux/openvswitch.h.
const (
	ovsNew = 1 // of each family

	ovsDPName      = 1
	ovsDPUpcallPID = 2

	ovsVportNumber    = 1
	ovsVportType      = 2
	ovsVportName      = 3
	ovsVportUpcallPID = 5
	ovsVportNetdev    = 1 // a type

	ovsFlowKey     = 1
	ovsFlowActions = 2
	ovsFlowMask    = 7

	ovsKeyInPort    = 3
	ovsKeyEthernet  = 4
	ovsKeyEthertype = 6
	ovsKeyIPv4      = 7
	ovsKeyIPv6      = 8
	ovsKeyARP       = 13

	ovsActionOutput = 1
)

// The ports of the switch: its own device, which is the first, and the wire.
const (
	ovsLocal = 0
	ovsWire  = 1
)

// ovsKeys are the parts of a flow's key that follow the EtherType, by number and length; here none of their bits count.
var ovsKeys = map[uint16]struct{ key, len int }{
	unix.ETH_P_IP:   {ovsKeyIPv4, 12},
	unix.ETH_P_IPV6: {ovsKeyIPv6, 40},
	unix.ETH_P_ARP:  {ovsKeyARP, 24},
}

// ovsHeader stands before the attributes of each of these families: the switch's interface.
type ovsHeader int32

func (ovsHeader) Len() int            { return 4 }
func (h ovsHeader) Serialize() []byte { return binary.NativeEndian.AppendUint32(nil, uint32(h)) }

// ErrNoOpenVSwitch: it is a module of the kernel.
var ErrNoOpenVSwitch = errors.New("this kernel has no Open vSwitch")

// OpenVSwitch makes a switch whose own device is `name`, of two ports: that device and `port`. All that comes from one goes
// to the other. It ends with its network namespace. Where the kernel has none: ErrNoOpenVSwitch.
func OpenVSwitch(name, port string) error {
	err := ovsCall("ovs_datapath", 0, nl.NewRtAttr(ovsDPName, nl.ZeroTerminated(name)), nl.NewRtAttr(ovsDPUpcallPID, nl.Uint32Attr(0)))
	if err != nil {
		return err
	}
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("device of the switch: %w", err)
	}
	at := ovsHeader(dev.Attrs().Index)
	err = ovsCall("ovs_vport", at, nl.NewRtAttr(ovsVportName, nl.ZeroTerminated(port)), nl.NewRtAttr(ovsVportType, nl.Uint32Attr(ovsVportNetdev)),
		nl.NewRtAttr(ovsVportNumber, nl.Uint32Attr(ovsWire)), nl.NewRtAttr(ovsVportUpcallPID, nl.Uint32Attr(0)))
	for ethertype := range ovsKeys {
		err = errors.Join(err, ovsFlow(at, ethertype, ovsWire, ovsLocal), ovsFlow(at, ethertype, ovsLocal, ovsWire))
	}
	return err
}

// ovsFlow has all frames of an EtherType that come from one port leave by another.
func ovsFlow(at ovsHeader, ethertype uint16, from, to uint32) error {
	be := binary.BigEndian.AppendUint16(nil, ethertype)
	rest := ovsKeys[ethertype]
	key := nl.NewRtAttr(ovsFlowKey|unix.NLA_F_NESTED, nil)
	mask := nl.NewRtAttr(ovsFlowMask|unix.NLA_F_NESTED, nil)
	for _, part := range []struct {
		number      int
		value, mask []byte
	}{
		{ovsKeyInPort, nl.Uint32Attr(from), nl.Uint32Attr(^uint32(0))},
		{ovsKeyEthernet, make([]byte, 12), make([]byte, 12)},
		{ovsKeyEthertype, be, []byte{0xff, 0xff}},
		{rest.key, make([]byte, rest.len), make([]byte, rest.len)},
	} {
		key.AddRtAttr(part.number, part.value)
		mask.AddRtAttr(part.number, part.mask)
	}
	actions := nl.NewRtAttr(ovsFlowActions|unix.NLA_F_NESTED, nil)
	actions.AddRtAttr(ovsActionOutput, nl.Uint32Attr(to))
	if err := ovsCall("ovs_flow", at, key, actions, mask); err != nil {
		return fmt.Errorf("frames of EtherType %#04x from port %d: %w", ethertype, from, err)
	}
	return nil
}

// ovsCall makes what the attributes describe.
func ovsCall(family string, at ovsHeader, attributes ...nl.NetlinkRequestData) error {
	f, err := netlink.GenlFamilyGet(family)
	if errors.Is(err, unix.ENOENT) {
		return ErrNoOpenVSwitch
	}
	if err != nil {
		return fmt.Errorf("%s: %w", family, err)
	}
	req := nl.NewNetlinkRequest(int(f.ID), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: ovsNew, Version: uint8(f.Version)})
	req.AddData(at)
	for _, a := range attributes {
		req.AddData(a)
	}
	if _, err := req.Execute(unix.NETLINK_GENERIC, 0); err != nil {
		return fmt.Errorf("new %s: %w", strings.TrimPrefix(family, "ovs_"), err)
	}
	return nil
}
