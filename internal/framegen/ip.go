// SPDX-License-Identifier: Apache-2.0

package framegen

import (
	"encoding/binary"
	"net/netip"
)

// IP protocols and extension headers, by their numbers.
const (
	protoHopByHop    = 0
	protoTCP         = 6
	protoRouting     = 43
	protoFragment    = 44
	protoAH          = 51
	protoDestination = 60
)

// checksum is the one's complement sum of RFC 1071 over b, with `sum` added.
func checksum(b []byte, sum uint32) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// ipv4 appends the packet.
func (g *Generator) ipv4(f *Frame, want Trait, dst netip.Addr, tcp []byte) {
	var options []byte
	switch {
	case want&SourceRoute != 0:
		f.Traits |= SourceRoute
		kind, pointer := pick[byte](g, 131, 137), pick[byte](g, 4, 8)
		options = []byte{1, kind, 7, pointer, 192, 0, 2, 9}
	case want&IPOptions != 0:
		f.Traits |= IPOptions
		options = pick(g, []byte{1, 1, 1, 1}, []byte{148, 4, 0, 0}, []byte{1, 7, 7, 4, 0, 0, 0, 0},
			[]byte{68, 8, 5, 0, 0, 0, 0, 0}, []byte{0, 0, 0, 0}, []byte{200, 4, 1, 2}, []byte{7, 90, 4, 0})
	}
	src4, dst4 := f.Source.As4(), dst.As4()
	at := len(g.buf)
	g.buf = append(g.buf, 0x45, byte(g.r.IntN(4)), 0, 0, byte(g.r.Uint32()), byte(g.r.Uint32()), pick[byte](g, 0x40, 0x40, 0), 0,
		g.ttl(f, want), protoTCP, 0, 0)
	g.buf = append(append(append(append(g.buf, src4[:]...), dst4[:]...), options...), tcp...)
	ip := g.buf[at:]
	ip[0] += byte(len(options) / 4)
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	if want&Fragment != 0 {
		f.Traits |= Fragment
		binary.BigEndian.PutUint16(ip[6:], pick[uint16](g, 0x2000, 0x2000, 0x2001, 0x0001, 0x2002, 0x0002, 0x0003, 0x8000))
	}
	if want&IPLength != 0 {
		f.Traits |= IPLength
		switch g.r.IntN(3) {
		case 0:
			ip[0] = 0x40 | byte(g.r.IntN(16))
		default:
			binary.BigEndian.PutUint16(ip[2:], uint16(g.r.IntN(2*len(ip))))
		}
	}
	header := min(len(ip), max(20, int(ip[0]&15)*4))
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:header], 0))
	if want&IPChecksum != 0 {
		f.Traits |= IPChecksum
		ip[10+g.r.IntN(2)] ^= 1 << g.r.IntN(8)
	}
}

func (g *Generator) ttl(f *Frame, want Trait) byte {
	if want&LowTTL != 0 {
		f.Traits |= LowTTL
		return byte(g.r.IntN(2))
	}
	return pick[byte](g, 64, 128, 255)
}

// extension is one extension header; the builder of the chain fills in the first byte.
type extension struct {
	proto byte
	body  []byte
}

// ipv6 appends the packet.
func (g *Generator) ipv6(f *Frame, want Trait, dst netip.Addr, tcp []byte) {
	var chain []extension
	switch {
	case want&LongExtensions != 0:
		f.Traits |= LongExtensions
		for left := ShortExtensions + 8 + g.r.IntN(1400); left > 0; {
			n := min(left, 8*(1+g.r.IntN(128)))
			chain = append(chain, extension{protoDestination, padding(n)})
			left -= n
		}
	case want&Extensions != 0:
		f.Traits |= Extensions
		chain = g.extensions(ShortExtensions)
	}
	if want&OddExtensions != 0 {
		f.Traits |= OddExtensions
		at := g.r.IntN(len(chain) + 1)
		chain = append(chain[:at:at], append(g.oddExtensions(), chain[at:]...)...)
	}
	if want&Fragment != 0 {
		f.Traits |= Fragment
		body := make([]byte, 8)
		binary.BigEndian.PutUint16(body[2:], pick[uint16](g, 0x0001, 0x0001, 0x0009, 0x0008, 0x0011, 0x0018, 0x0000))
		chain = append(chain, extension{protoFragment, body})
	}
	first := byte(protoTCP)
	length := len(tcp)
	for i, e := range chain {
		if i == 0 {
			first = e.proto
		}
		e.body[0] = protoTCP
		if i+1 < len(chain) {
			e.body[0] = chain[i+1].proto
		}
		length += len(e.body)
	}
	if want&IPLength != 0 {
		f.Traits |= IPLength
		if length = g.r.IntN(2*length + 2); length == 0 {
			f.Traits |= NoLength
		}
	}
	src16, dst16 := f.Source.As16(), dst.As16()
	g.buf = append(g.buf, 0x60, byte(g.r.IntN(4))<<4, 0, 0, byte(length>>8), byte(length), first, g.ttl(f, want))
	g.buf = append(append(g.buf, src16[:]...), dst16[:]...)
	for _, e := range chain {
		g.buf = append(g.buf, e.body...)
	}
	g.buf = append(g.buf, tcp...)
}

// padding is an options header of n bytes, a multiple of 8 up to 2,048, full of PadN.
func padding(n int) []byte {
	n = max(8, n/8*8)
	b := make([]byte, n)
	b[1] = byte(n/8 - 1)
	for at := 2; at < n; {
		if n-at == 1 {
			break // Pad1
		}
		// Linux accepts no more than 7 bytes of padding in one run before other options,
		// so bytes of an option that receivers skip (00xxxxxx, RFC 8200 section 4.2) fill it.
		size := min(n-at-2, 255)
		b[at], b[at+1] = 0x1e, byte(size)
		at += 2 + size
	}
	return b
}

// extensions is a valid chain of at most `most` bytes.
func (g *Generator) extensions(most int) (chain []extension) {
	if g.oneIn(2) {
		n := 8 * (1 + g.r.IntN(4))
		chain = append(chain, extension{protoHopByHop, padding(n)})
		most -= n
	}
	for range pick(g, 1, 1, 2, 3) {
		n := 8 * (1 + g.r.IntN(min(16, most/8)))
		if most -= n; most < 8 {
			break
		}
		chain = append(chain, extension{protoDestination, padding(n)})
	}
	return chain
}

// oddExtensions are chains that some receivers refuse and others skip.
func (g *Generator) oddExtensions() []extension {
	routing := func(left byte) extension { return extension{protoRouting, []byte{0, 0, 4, left, 0, 0, 0, 0}} }
	switch g.r.IntN(9) {
	case 0:
		return []extension{routing(0)}
	case 1:
		return []extension{routing(1)}
	case 2:
		return []extension{{protoAH, []byte{0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	case 3: // an option that must be answered with an error (10xxxxxx)
		return []extension{{protoDestination, []byte{0, 0, 0x9e, 4, 0, 0, 0, 0}}}
	case 4: // ... that must be dropped (01xxxxxx)
		return []extension{{protoDestination, []byte{0, 0, 0x5e, 4, 0, 0, 0, 0}}}
	case 5: // options with inconsistent lengths
		return []extension{{protoDestination, []byte{0, 0, 0x1e, 40, 0, 0, 0, 0}}}
	case 6: // hop-by-hop not first, or twice
		return []extension{{protoHopByHop, padding(8)}, {protoHopByHop, padding(8)}}
	case 7: // a length beyond the packet
		return []extension{{protoDestination, []byte{0, 200, 1, 4, 0, 0, 0, 0}}}
	default: // many
		var chain []extension
		for range 3 + g.r.IntN(10) {
			chain = append(chain, extension{protoDestination, padding(8)})
		}
		return chain
	}
}
