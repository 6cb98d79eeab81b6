// SPDX-License-Identifier: Apache-2.0

package framegen

import (
	"cmp"
	"encoding/binary"
	"net/netip"
)

const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	flagPSH
	flagACK
	flagURG
	flagECE
	flagCWR
)

// tcp appends the segment, including its checksum.
func (g *Generator) tcp(f *Frame, s Segment, want Trait, dst netip.Addr) []byte {
	flags := s.Flags
	if flags == flagSYN && g.oneIn(8) {
		flags |= flagECE | flagCWR
	}
	if want&Flags != 0 {
		f.Traits |= Flags
		flags |= pick[uint8](g, flagFIN, flagRST, flagPSH, flagURG, flagECE, flagCWR, flagFIN|flagPSH|flagURG, flagFIN|flagRST)
		if g.oneIn(8) {
			flags &^= flagSYN
		}
	}
	options := s.Options
	if options == nil {
		options = g.options(f, want)
	}
	b := make([]byte, 20, 120)
	binary.BigEndian.PutUint16(b[0:], f.Port)
	binary.BigEndian.PutUint16(b[2:], cmp.Or(s.DstPort, g.net.Port))
	binary.BigEndian.PutUint32(b[4:], f.Seq)
	binary.BigEndian.PutUint32(b[8:], s.Ack)
	b[12], b[13] = byte(5+len(options)/4)<<4|byte(g.reserved(want)), flags
	binary.BigEndian.PutUint16(b[14:], pick[uint16](g, 64240, 65535, 1024, 1))
	b = append(b, options...)
	if want&Payload != 0 {
		f.Traits |= Payload
		for range 1 + g.r.IntN(60) {
			b = append(b, byte(g.r.Uint32()))
		}
	}
	if want&DataOffset != 0 {
		f.Traits |= DataOffset
		b[12] = byte(g.r.IntN(16)) << 4
	}
	pseudo := pseudoHeader(f.Source, dst, len(b))
	switch {
	case want&PartialChecksum != 0:
		f.Traits |= PartialChecksum
		binary.BigEndian.PutUint16(b[16:], ^checksum(nil, pseudo))
	default:
		binary.BigEndian.PutUint16(b[16:], checksum(b, pseudo))
		if want&Checksum != 0 {
			f.Traits |= Checksum
			b[16+g.r.IntN(2)] ^= 1 << g.r.IntN(8)
			if binary.BigEndian.Uint16(b[16:]) == ^checksum(nil, pseudo) { // by chance
				f.Traits |= PartialChecksum
			}
		}
	}
	return b
}

// reserved bits of byte 12; receivers ignore them.
func (g *Generator) reserved(want Trait) int {
	if want&Flags != 0 {
		return g.r.IntN(16)
	}
	return 0
}

func pseudoHeader(src, dst netip.Addr, length int) uint32 {
	sum := uint32(protoTCP) + uint32(length)
	for _, a := range []netip.Addr{src, dst} {
		for b := a.AsSlice(); len(b) > 0; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
	}
	return sum
}

// options is the list of a SYN, padded to whole words and at most 40 bytes.
func (g *Generator) options(f *Frame, want Trait) []byte {
	var o []byte
	switch g.r.IntN(4) { // as written by Linux, Windows, an old stack, and none at all
	case 0:
		o = append(o, 2, 4, 5, 0xb4, 4, 2, 8, 10)
		o = binary.BigEndian.AppendUint32(o, g.r.Uint32())
		o = append(o, 0, 0, 0, 0, 1, 3, 3, byte(g.r.IntN(15)))
	case 1:
		o = append(o, 2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2)
	case 2:
		o = append(o, 2, 4, 2, 0x18)
	}
	if want&Options != 0 {
		f.Traits |= Options
		o = nil
		for range g.r.IntN(7) {
			o = append(o, g.oddOption()...)
		}
	}
	if want&Signed != 0 {
		f.Traits |= Signed
		o = g.withSignature(o, pick(g, []byte{19, 18}, []byte{29, 16}, []byte{29, 20}))
	}
	if want&BadlySigned != 0 {
		f.Traits |= BadlySigned
		o = g.withSignature(o, pick(g, []byte{19, 2}, []byte{29, 2}, []byte{29, 4}, []byte{19, 4}, []byte{19, 17}, []byte{29, 3}))
		if g.oneIn(3) {
			o = append(o, pick(g, []byte{19, 2}, []byte{29, 4, 1, 1})...)
		}
	}
	for len(o)%4 != 0 {
		o = append(o, 1)
	}
	if len(o) > 40 {
		o = o[:40]
	}
	if o == nil {
		o = []byte{}
	}
	return o
}

// withSignature puts an authentication option of this kind and length first.
func (g *Generator) withSignature(o, head []byte) []byte {
	b := append([]byte{}, head...)
	for len(b) < int(head[1]) {
		b = append(b, byte(g.r.Uint32()))
	}
	return append(b, o...)
}

func (g *Generator) oddOption() []byte {
	random := byte(g.r.Uint32())
	switch g.r.IntN(12) {
	case 0:
		return []byte{1}
	case 1:
		return []byte{0}
	case 2:
		return []byte{2, 4, random, byte(g.r.Uint32())}
	case 3:
		return []byte{2, pick[byte](g, 0, 1, 2, 3, 5, 40, 255), random}
	case 4:
		return []byte{3, 3, random}
	case 5:
		return []byte{4, 2}
	case 6:
		return []byte{8, 10, random, 1, 2, 3, 0, 0, 0, 0}
	case 7:
		return []byte{8, pick[byte](g, 2, 9, 11), random, 1, 2, 3, 0, 0, 0}
	case 8: // TCP Fast Open: a request or a cookie
		return pick(g, []byte{34, 2}, []byte{34, 10, 1, 2, 3, 4, 5, 6, 7, random})
	case 9: // SACK in a SYN
		return []byte{5, 10, 0, 0, 0, 1, 0, 0, 0, random}
	case 10: // multipath TCP, MP_CAPABLE
		return []byte{30, 4, 1, random}
	default:
		return []byte{random | 0x40, pick[byte](g, 0, 1, 2, 3, 4), 1, 1}
	}
}
