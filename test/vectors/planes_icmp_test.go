// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"tidegate/internal/framegen"
	"tidegate/internal/vectors"
)

// ICMP errors of TestPlanes: what a router or a host on either side answers to a segment that a gate has sent, whole or cut off,
// in packets with and without faults.

// icmp sends an error that quotes what each gate has sent. toServer: the quoted segment went to the server, so that an error
// comes from there; now and then it comes from the other side.
func (c *planesComparison) icmp(r *rand.Rand, quoted []outcome, toServer bool) {
	for _, q := range quoted {
		if l3Offset(q.Out) == 0 || q.Verdict == vectors.Drop {
			return // nothing was sent, or it went on as it came
		}
	}
	seed, fromServer := r.Uint64(), toServer != (r.IntN(8) == 0)
	c.send(fromServer, func(_ *framegen.Generator, gate int) framegen.Frame {
		return framegen.Frame{Bytes: icmpError(rand.New(rand.NewPCG(seed, 0)), quoted[gate].Out)}
	})
}

// icmpError is a frame with an error, or another ICMP message, about a frame.
func icmpError(r *rand.Rand, quoted []byte) []byte {
	l3 := l3Offset(quoted)
	v6, ip := quoted[l3]>>4 == 6, quoted[l3:]
	header, address, length := int(ip[0]&15)*4, 12, 4
	types := []byte{3, 3, 3, 3, 11, 12, 4, 5, 8, 0}
	if v6 {
		header, address, length = 40, 8, 16
		types = []byte{1, 1, 2, 2, 3, 4, 128, 133, 137, 127}
	}
	// RFC 792: eight bytes behind the IP header; RFC 1812: as much as there is room for. And less than any sends.
	keep := min(len(ip), []int{len(ip), len(ip), len(ip), header + 8, header + 12, header + 20, header + r.IntN(24), r.IntN(header + 20)}[r.IntN(8)])
	body := append([]byte{types[r.IntN(len(types))], byte(r.IntN(6)), 0, 0, 0, 0, byte(r.Uint32()), byte(r.Uint32())}, ip[:keep]...)
	if r.IntN(6) == 0 && keep > 8 { // damaged, or of another packet
		body[8+r.IntN(min(keep, header+8))] ^= byte(1 << r.IntN(8))
	}
	to, from := ip[address:address+length], make([]byte, length)
	copy(from, to)
	from[length-1] ^= byte(1 + r.IntN(255)) // a router near the receiver

	frame := slices.Clone(quoted[:l3])
	copy(frame, quoted[6:12])
	copy(frame[6:], quoted[:6])
	fault := r.IntN(24)
	var packet []byte
	if v6 {
		packet = append([]byte{0x60, 0, 0, 0, 0, 0, 58, 64}, slices.Concat(from, to)...)
		extra := 0
		if fault == 0 { // an extension header first
			packet[6], extra = 60, 8
			packet = append(packet, 58, 0, 1, 4, 0, 0, 0, 0)
		}
		binary.BigEndian.PutUint16(packet[4:], uint16(extra+len(body)))
		pseudo := binary.BigEndian.AppendUint32(slices.Concat(from, to), uint32(len(body)))
		binary.BigEndian.PutUint16(body[2:], onesComplement(0, even(slices.Concat(pseudo, []byte{0, 0, 0, 58}, body))))
	} else {
		packet = append([]byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, 1, 0, 0}, slices.Concat(from, to)...)
		switch fault {
		case 0: // IP options
			packet[0] = 0x46
			packet = append(packet, 1, 1, 1, 1)
		case 1: // a first or a later fragment
			binary.BigEndian.PutUint16(packet[6:], []uint16{0x2000, 0x2001, 1, 0x1f00}[r.IntN(4)])
		case 2: // DF
			packet[6] = 0x40
		}
		binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)+len(body)))
		binary.BigEndian.PutUint16(packet[10:], onesComplement(0, packet))
		binary.BigEndian.PutUint16(body[2:], onesComplement(0, even(body)))
	}
	switch fault {
	case 3: // a wrong checksum stays wrong
		body[3] ^= 1
	case 4: // another protocol
		packet[map[bool]int{false: 9, true: 6}[v6]] = 17
	}
	frame = append(append(frame, packet...), body...)
	if fault == 5 {
		frame = frame[:len(frame)-1-r.IntN(min(len(body), 32))]
	}
	return frame
}

// even pads to whole words, for a checksum.
func even(b []byte) []byte {
	if len(b)%2 != 0 {
		b = append(slices.Clone(b), 0)
	}
	return b
}

// l3Offset is where a frame's IP header starts, after VLAN tags; 0: it has none.
func l3Offset(frame []byte) int {
	at := 12
	for len(frame) > at+4 && slices.Contains([]uint16{0x8100, 0x88a8, 0x9100}, binary.BigEndian.Uint16(frame[at:])) {
		at += 4
	}
	if len(frame) < at+2+40 || !slices.Contains([]uint16{0x0800, 0x86dd}, binary.BigEndian.Uint16(frame[at:])) {
		return 0
	}
	return at + 2
}

// clearQuoted clears what an ICMP error quotes that depends on a gate's own number, and its checksum.
func clearQuoted(frame []byte) bool {
	l3 := l3Offset(frame)
	if l3 == 0 {
		return false
	}
	ip, at := frame[l3:], 40
	if ip[0]>>4 == 4 {
		at = int(ip[0]&15) * 4
		if ip[9] != 1 {
			return false
		}
	} else if ip[6] != 58 && ip[6] != 60 {
		return false
	} else if ip[6] == 60 {
		at += 8
	}
	if at+8+20 > len(ip) {
		return false
	}
	clear(ip[at+2 : at+4])
	clear(ip[min(len(ip), at+8+20):]) // the quoted TCP header, behind IP options or extension headers
	return true
}
