// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"slices"
)

// tcpHeader is a frame's TCP header, after any IP options or extension headers; nil if there is none.
func tcpHeader(frame []byte) []byte {
	at := 12
	for len(frame) > at+2 && slices.Contains([]uint16{0x8100, 0x88a8, 0x9100}, binary.BigEndian.Uint16(frame[at:])) {
		at += 4
	}
	if len(frame) < at+2+20 {
		return nil
	}
	ethertype, ip := binary.BigEndian.Uint16(frame[at:]), frame[at+2:]
	switch {
	case ethertype == 0x0800:
		at = int(ip[0]&15) * 4
	case ethertype == 0x86dd && len(ip) > 40:
		next := ip[6]
		for at = 40; slices.Contains([]byte{0, 43, 44, 51, 60}, next) && at+8 <= len(ip); { // extension headers
			length := 8 * (1 + int(ip[at+1]))
			switch next {
			case 44:
				length = 8
			case 51:
				length = 4 * (2 + int(ip[at+1]))
			}
			next, at = ip[at], at+length
		}
	default:
		return nil
	}
	if at < 20 || at+20 > len(ip) {
		return nil
	}
	return ip[at:]
}

// timestampsAt is the offset of TSval in the segments of gates and of well-behaved clients; 0: none.
func timestampsAt(tcp []byte) int {
	end := min(int(tcp[12]>>4)*4, len(tcp))
	for at := 20; at+1 < end; {
		switch {
		case tcp[at] == 0:
			return 0
		case tcp[at] == 1:
			at++
		case tcp[at] == 8 && at+10 <= end:
			return at + 2
		case tcp[at+1] < 2:
			return 0
		default:
			at += int(tcp[at+1])
		}
	}
	return 0
}

// turned makes a client's plain segment into one of its server, with these numbers and flags and without options.
func turned(client []byte, seq, ack uint32, flags uint8) []byte {
	b := slices.Clone(client)
	v6 := b[12] == 0x86
	at, addr, n := ethernetHeaderLen+20, ethernetHeaderLen+12, 4
	if v6 {
		at, addr, n = ethernetHeaderLen+40, ethernetHeaderLen+8, 16
	}
	b = b[:at+20]
	copy(b[addr:], client[addr+n:addr+2*n])
	copy(b[addr+n:], client[addr:addr+n])
	copy(b[at:], client[at+2:at+4])
	copy(b[at+2:], client[at:at+2])
	binary.BigEndian.PutUint32(b[at+4:], seq)
	binary.BigEndian.PutUint32(b[at+8:], ack)
	b[at+12], b[at+13] = 5<<4, flags
	clear(b[at+16 : at+20])
	if v6 {
		binary.BigEndian.PutUint16(b[18:], 20)
	} else {
		binary.BigEndian.PutUint16(b[16:], 40)
		clear(b[24:26])
		binary.BigEndian.PutUint16(b[24:], onesComplement(0, b[14:34]))
	}
	binary.BigEndian.PutUint16(b[at+16:], onesComplement(6+20, b[addr:]))
	return b
}

// onesComplement is the checksum of RFC 1071 over b, with `sum` added.
func onesComplement(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
