// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Link-layer address for an unknown neighbour.
var stranger = net.HardwareAddr{2, 0, 0, 0, 0, 1}

// synFrame is the SYN that Linux sends: MSS, SACK, timestamps, window scale.
func synFrame(to, from net.HardwareAddr, src, dst netip.AddrPort) ([]byte, error) {
	if len(to) != 6 {
		to = stranger
	}
	if len(from) != 6 {
		from = stranger
	}
	eth := &layers.Ethernet{DstMAC: to, SrcMAC: from, EthernetType: layers.EthernetTypeIPv6}
	mss := uint16(1440)
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	} = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice()}
	if src.Addr().Is4() {
		eth.EthernetType, mss = layers.EthernetTypeIPv4, 1460
		ip = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice()}
	}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(src.Port()), DstPort: layers.TCPPort(dst.Port()), Seq: 1_000_000, SYN: true, Window: 64240,
		Options: []layers.TCPOption{
			{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{byte(mss >> 8), byte(mss)}},
			{OptionType: layers.TCPOptionKindSACKPermitted, OptionLength: 2},
			{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: []byte{0, 1, 0, 0, 0, 0, 0, 0}},
			{OptionType: layers.TCPOptionKindNop, OptionLength: 1},
			{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{7}},
		}}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip, tcp)
	return b.Bytes(), err
}

// describe describes a TCP frame for people.
func describe(frame []byte) string {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	tcp, ok := p.TransportLayer().(*layers.TCP)
	if !ok || p.NetworkLayer() == nil {
		return fmt.Sprintf("%d bytes that are no TCP segment", len(frame))
	}
	src, dst := p.NetworkLayer().NetworkFlow().Endpoints()
	kind := "segment"
	switch {
	case tcp.SYN && tcp.ACK:
		kind = "SYN-ACK"
	case tcp.RST:
		kind = "RST"
	case tcp.SYN:
		kind = "SYN"
	case tcp.ACK:
		kind = "ACK"
	}
	text := fmt.Sprintf("%s from %s to %s, sequence number %d, window %d", kind, net.JoinHostPort(src.String(), fmt.Sprint(uint16(tcp.SrcPort))),
		net.JoinHostPort(dst.String(), fmt.Sprint(uint16(tcp.DstPort))), tcp.Seq, tcp.Window)
	for _, o := range tcp.Options {
		switch o.OptionType {
		case layers.TCPOptionKindMSS:
			if len(o.OptionData) == 2 {
				text += fmt.Sprintf(", MSS %d", int(o.OptionData[0])<<8|int(o.OptionData[1]))
			}
		case layers.TCPOptionKindSACKPermitted:
			text += ", SACK"
		case layers.TCPOptionKindTimestamps:
			text += ", timestamps"
		case layers.TCPOptionKindWindowScale:
			if len(o.OptionData) == 1 {
				text += fmt.Sprintf(", window scale %d", o.OptionData[0])
			}
		}
	}
	return text
}
