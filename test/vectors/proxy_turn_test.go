// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
)

// What a router sends back by the port that it came from leaves by XDP_TX: a redirect there is for twins alone (bpf/lib/proxy_twin.h).
func TestRouterTurnsRoundByTX(t *testing.T) {
	g := newProxyGate(t, false)
	const name = "tg-arm"
	arm := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "far"}
	err := netlink.LinkAdd(arm)
	for _, end := range []string{name, name + "far"} {
		l, e := netlink.LinkByName(end)
		if err = errors.Join(err, e); err == nil {
			err = netlink.LinkSetUp(l)
		}
	}
	at, e := netlink.LinkByName(name)
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	index := at.Attrs().Index
	server := net.HardwareAddr{2, 0, 0, 0, 0, 0x12}
	err = errors.Join(netlink.AddrAdd(at, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 7, 0, 1), Mask: net.CIDRMask(24, 32)}}),
		netlink.NeighAdd(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: net.IPv4(10, 7, 0, 2), HardwareAddr: server}),
		sysctl("ipv4/ip_forward", "1"), g.p.SetPorts([]string{name}))
	own := g.own
	own.ForwardAll = 1
	if err = errors.Join(err, g.p.SetProxy(own), g.p.SetServices(nil, &plane.Settings{EpochLenNs: planesEpochLen})); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 54)
	copy(frame, append(append(append([]byte{}, at.Attrs().HardwareAddr...), 2, 0, 0, 0, 0, 0x13), 8, 0))
	copy(frame[14:], []byte{0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, unix.IPPROTO_TCP, 0, 0, 10, 7, 0, 3, 10, 7, 0, 2})
	binary.BigEndian.PutUint16(frame[34:], 5555)
	binary.BigEndian.PutUint16(frame[36:], 8081)
	frame[46], frame[47] = 5<<4, tcpACK
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, 256), Context: xdpMd{DataEnd: uint32(len(frame)), IngressIfindex: uint32(index)}}
	ret, err := g.xdp.Run(&o)
	if err != nil {
		t.Fatal(err)
	}
	if ret != xdpTX || net.HardwareAddr(o.DataOut[:6]).String() != server.String() || o.DataOut[22] != 63 {
		t.Errorf("verdict %d, %x; want %d, to %v, TTL 63", ret, o.DataOut, xdpTX, server)
	}
}
