// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"golang.org/x/sys/unix"
)

// The frames whose instructions are counted.

// SYNs as Linux and Windows send them, to the lab's service; without an Ethernet header's addresses.
var synFrames = map[string]string{
	"v4-ts": "0800" + "4500003c000040004006" + "0000" + "c6130001" + "c6120050" + tcpSYN + "a002" + "faf0" + "00000000" +
		"020405b40402080a00112233000000000103030a",
	"v4": "0800" + "45000034000040004006" + "0000" + "c6130001" + "c6120050" + tcpSYN + "8002" + "faf0" + "00000000" +
		"020405b40103030801010402",
	"v6-ts": "86dd" + "6000000000280640" + "20010db8000000000000000000000001" + "fd7d7467000000000000000000000080" + tcpSYN +
		"a002" + "faf0" + "00000000" + "020405a00402080a00112233000000000103030a",
	"v6": "86dd" + "6000000000200640" + "20010db8000000000000000000000001" + "fd7d7467000000000000000000000080" + tcpSYN +
		"8002" + "faf0" + "00000000" + "020405a00103030801010402",
}

const tcpSYN = "80000050" + "11223344" + "00000000" // ports, number, acknowledgement

// synFrame is one of these, to a MAC address; nil: 02:00:00:00:00:02.
func synFrame(kind string, to []byte) []byte {
	f, err := hex.DecodeString("020000000002" + "020000000001" + synFrames[kind])
	if err != nil {
		panic(err) // the constants above
	}
	copy(f, to)
	putSums(f)
	return f
}

// optionSYN is a SYN with these TCP options, in hexadecimal, over IPv4 or IPv6, padded to 60 bytes, to a MAC address as synFrame.
func optionSYN(ipv6 bool, flags byte, options string, to []byte) []byte {
	kind, end := "v4-ts", 54
	if ipv6 {
		kind, end = "v6-ts", 74
	}
	o, err := hex.DecodeString(options)
	if err != nil {
		panic(err)
	}
	f := append(synFrame(kind, to)[:end], o...)
	if length := uint16(20 + len(o)); ipv6 {
		binary.BigEndian.PutUint16(f[18:], length)
	} else {
		binary.BigEndian.PutUint16(f[16:], 20+length)
	}
	f[end-8], f[end-7] = byte(5+len(o)/4)<<4, flags
	putSums(f)
	return append(f, make([]byte, max(0, 60-len(f)))...)
}

// dataSYN is a SYN with these options and zeroes for data.
func dataSYN(ipv6 bool, options string, data int, to []byte) []byte {
	length, ends := 16, 54
	if ipv6 {
		length, ends = 18, 74
	}
	f := optionSYN(ipv6, 0x02, options, to)
	binary.BigEndian.PutUint16(f[length:], binary.BigEndian.Uint16(f[length:])+uint16(data))
	f = append(f[:ends+len(options)/2], make([]byte, data)...)
	putSums(f)
	return f
}

// putSums writes correct checksums into a TCP segment without VLAN tags, IP options or extension headers.
func putSums(f []byte) {
	add := func(b []byte, sum uint32) uint32 {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		return sum
	}
	put := func(at []byte, sum uint32) {
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(at, ^uint16(sum>>16+sum))
	}
	ip, tcp, addrs := f[14:34], f[34:], f[26:34]
	if f[12] == 0x86 {
		tcp, addrs = f[54:], f[22:54]
	} else {
		ip[10], ip[11] = 0, 0
		put(ip[10:], add(ip, 0))
	}
	tcp[16], tcp[17] = 0, 0
	put(tcp[16:], add(tcp, add(addrs, uint32(unix.IPPROTO_TCP+len(tcp)))))
}

// ackWithOptions is an ACK without options, over IPv4 or IPv6, with these, in hexadecimal; with correct sums, padded to 60 bytes.
func ackWithOptions(f []byte, options string) []byte {
	o, err := hex.DecodeString(options)
	if err != nil {
		panic(err) // constants
	}
	length, offset := 17, 46
	if f[12] == 0x86 {
		length, offset = 19, 66
	}
	f = append(f, o...)
	f[length] += byte(len(o))
	f[offset] = byte(5+len(o)/4) << 4
	putSums(f)
	return append(f, make([]byte, max(0, 60-len(f)))...)
}

// ackFrameOf is ackFrame, without timestamps or over IPv6, to a MAC address.
func ackFrameOf(kind string, to []byte) []byte {
	f := ackFrame()
	copy(f, to)
	if !strings.HasSuffix(kind, "-ts") {
		f = f[:54]
		f[17], f[46] = 40, 0x50
	}
	if !strings.HasPrefix(kind, "v6") {
		return f
	}
	six := make([]byte, len(f)+20)
	copy(six, f[:12])
	copy(six[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(f) - 34), 6, 64})
	copy(six[22:], labAddresses[1].AsSlice())
	six[37] = 1
	copy(six[38:], labAddresses[1].AsSlice())
	copy(six[54:], f[34:])
	return six
}
