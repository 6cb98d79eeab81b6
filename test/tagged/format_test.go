// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"encoding/binary"
	"math/bits"

	"tidegate/internal/keys"
)

// Written independently from the documents, without looking at core/.

// sipHash24 is SipHash-2-4 with 64 bits of output.
func sipHash24(key [16]byte, msg []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	v0, v1 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d
	v2, v3 := k0^0x6c7967656e657261, k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	padded := append([]byte{}, msg...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(msg)))
	for i := 0; i < len(padded); i += 8 {
		m := binary.LittleEndian.Uint64(padded[i:])
		v3 ^= m
		round()
		round()
		v0 ^= m
	}
	v2 ^= 0xff
	for range 4 {
		round()
	}
	return v0 ^ v1 ^ v2 ^ v3
}

// segment is a TCP segment cut into its parts; frame is the whole.
type segment struct {
	frame            []byte
	v6               bool
	src, dst         []byte
	sport, dport     uint16
	seq, ack         uint32
	flags            byte
	window           uint16
	options, payload []byte
	l4               int
}

const (
	flagFIN, flagSYN, flagRST, flagACK = 1, 2, 4, 16
	ethLen                             = 14
)

// parse cuts an untagged Ethernet frame; ok is false for what is not TCP.
func parse(frame []byte) (s segment, ok bool) {
	if len(frame) < ethLen+40 {
		return s, false
	}
	s.frame = frame
	ip := frame[ethLen:]
	var end int
	switch {
	case ip[0]>>4 == 4 && ip[9] == 6:
		s.src, s.dst = ip[12:16], ip[16:20]
		s.l4 = ethLen + int(ip[0]&15)*4
		end = ethLen + int(binary.BigEndian.Uint16(ip[2:]))
	case ip[0]>>4 == 6 && ip[6] == 6:
		s.v6 = true
		s.src, s.dst = ip[8:24], ip[24:40]
		s.l4 = ethLen + 40
		end = s.l4 + int(binary.BigEndian.Uint16(ip[4:]))
	default:
		return s, false
	}
	if end > len(frame) || s.l4+20 > end {
		return s, false
	}
	t := frame[s.l4:end]
	hdr := int(t[12]>>4) * 4
	if hdr < 20 || hdr > len(t) {
		return s, false
	}
	s.sport, s.dport = binary.BigEndian.Uint16(t), binary.BigEndian.Uint16(t[2:])
	s.seq, s.ack = binary.BigEndian.Uint32(t[4:]), binary.BigEndian.Uint32(t[8:])
	s.flags, s.window = t[13], binary.BigEndian.Uint16(t[14:])
	s.options, s.payload = t[20:hdr], t[hdr:]
	return s, true
}

// timestamps of a segment.
func (s *segment) timestamps() (tsval, tsecr uint32, ok bool) {
	if d := option(s.options, 8); len(d) == 8 {
		return binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:]), true
	}
	return 0, 0, false
}

// option returns the data of the first option of a kind; empty, not nil, if it has none.
func option(o []byte, kind byte) []byte {
	for len(o) > 0 && o[0] != 0 {
		if o[0] == 1 {
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return nil
		}
		if o[0] == kind {
			return o[2:o[1]:o[1]]
		}
		o = o[o[1]:]
	}
	return nil
}

// build makes a frame from a segment's parts, with complete checksums, between the MAC
// addresses of `like`.
func (s *segment) build(like []byte) []byte {
	tcp := make([]byte, 20, 20+len(s.options)+len(s.payload))
	binary.BigEndian.PutUint16(tcp, s.sport)
	binary.BigEndian.PutUint16(tcp[2:], s.dport)
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp[12] = byte((20+len(s.options))/4) << 4
	tcp[13] = s.flags
	binary.BigEndian.PutUint16(tcp[14:], s.window)
	tcp = append(append(tcp, s.options...), s.payload...)
	pseudo := append(append(append([]byte{}, s.src...), s.dst...), 0, 6, byte(len(tcp)>>8), byte(len(tcp)))
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
	var ip []byte
	if s.v6 {
		ip = append([]byte{0x60, 0, 0, 0, byte(len(tcp) >> 8), byte(len(tcp)), 6, 64}, append(append([]byte{}, s.src...), s.dst...)...)
	} else {
		n := 20 + len(tcp)
		ip = append([]byte{0x45, 0, byte(n >> 8), byte(n), 0, 0, 0x40, 0, 64, 6, 0, 0}, append(append([]byte{}, s.src...), s.dst...)...)
		binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	}
	return append(append(append([]byte{}, like[:ethLen]...), ip...), tcp...)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i++ {
		if i%2 == 0 {
			sum += uint32(b[i]) << 8
		} else {
			sum += uint32(b[i])
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// ---- docs/cookie-format.md, layout `tidegate` ----

var mssTable = map[bool][]uint16{
	false: {536, 1220, 1300, 1360, 1400, 1440, 1460, 8960},
	true:  {1220, 1280, 1340, 1360, 1400, 1420, 1440, 8940},
}

func cookieMAC(key [16]byte, s *segment, clientISN, options uint32, epoch uint64, form byte) uint64 {
	msg := binary.LittleEndian.AppendUint32(append([]byte{}, s.dst...), uint32(epoch))
	msg = binary.BigEndian.AppendUint16(msg, s.sport)
	msg = binary.BigEndian.AppendUint16(msg, s.dport)
	msg = binary.LittleEndian.AppendUint32(append(msg, s.src...), clientISN)
	options |= uint32(form) << 22
	return sipHash24(key, append(msg, byte(options), byte(options>>8), byte(options>>16)))
}

// optionBits are those of a client with window scale 7 and SACK, whose MSS is the table's `index`.
func optionBits(index, mss uint32, ts bool) uint32 {
	if ts {
		index = mss
	}
	return index<<6 | 7<<2 | 1<<1
}

// makeCookie is the ISN (and TSval) for a SYN with these option bits.
func makeCookie(secret *keys.Secret, s *segment, clientISN, options uint32, ts bool, epoch uint64) (isn, tsval uint32) {
	key := secret.EpochKey(epoch)
	parity := uint32(epoch&1) << 31
	if ts {
		mac := cookieMAC(key, s, clientISN, options, epoch, 2)
		return parity | uint32(mac)&0x7fffffff, options<<10 | uint32(mac>>31)&0x3ff
	}
	mac := cookieMAC(key, s, clientISN, options, epoch, 1)
	return parity | options<<22 | uint32(mac)&0x3fffff, 0
}

// verifyCookie reports whether an ACK carries a cookie of this epoch or the previous one.
func verifyCookie(secret *keys.Secret, s *segment, epoch uint64) bool {
	_, tsecr, ts := s.timestamps()
	options := (s.ack - 1) >> 22 & 0x1ff
	if ts {
		options = tsecr >> 10
	}
	for _, n := range []uint64{epoch, epoch - 1} {
		isn, tsval := makeCookie(secret, s, s.seq-1, options, ts, n)
		if isn == s.ack-1 && (!ts || tsval == tsecr) {
			return true
		}
	}
	return false
}

// ---- docs/split-protocol.md ----

const (
	tagSetup, tagProbe = 1, 2
	confirmPort        = 21575
	confirmLen         = 60
)

// makeTag is the 20 bytes of the option.
func makeTag(secret *keys.Secret, s *segment, what byte, edge uint16, wscale byte, epoch uint64) []byte {
	_, tsecr, _ := s.timestamps()
	tag := []byte{254, 20, 'T', 'G', 1<<4 | what, wscale << 4, byte(edge >> 8), byte(edge)}
	tag = binary.BigEndian.AppendUint32(tag, uint32(epoch))
	msg := append(append([]byte{}, s.src...), s.dst...)
	msg = binary.BigEndian.AppendUint16(msg, s.sport)
	msg = binary.BigEndian.AppendUint16(msg, s.dport)
	msg = binary.LittleEndian.AppendUint32(msg, s.seq)
	msg = binary.LittleEndian.AppendUint32(msg, s.ack)
	msg = binary.LittleEndian.AppendUint32(msg, tsecr)
	msg = append(msg, tag[4:12]...)
	return binary.LittleEndian.AppendUint64(tag, sipHash24(secret.TagKey(epoch), msg))
}

// confirmation is a message from a server to an edge.
type confirmation struct {
	edge         uint16
	flow         string // client, server, ports, as bytes
	sport, dport uint16
}

// readConfirm parses a frame; ok is false if it is not a confirmation, or does not verify.
func readConfirm(secret *keys.Secret, frame []byte, epoch uint64) (c confirmation, ok bool) {
	ip := frame[ethLen:]
	l4, v6 := 20, ip[0]>>4 == 6
	if v6 {
		l4 = 40
	}
	if len(ip) < l4+8+confirmLen || (v6 && ip[6] != 17) || (!v6 && ip[9] != 17) {
		return c, false
	}
	if !v6 && checksum(ip[:20]) != 0 {
		return c, false
	}
	udp := ip[l4:]
	if binary.BigEndian.Uint16(udp[2:]) != confirmPort || binary.BigEndian.Uint16(udp[4:]) != 8+confirmLen {
		return c, false
	}
	p := udp[8 : 8+confirmLen]
	if string(p[:3]) != "TG\x23" || (p[3] == 6) != v6 {
		return c, false
	}
	n := epoch&^0xffffffff | uint64(binary.BigEndian.Uint32(p[12:]))
	if n > epoch+1 || n+1 < epoch {
		return c, false
	}
	msg := append(append([]byte{}, p[:8]...), p[12:52]...)
	if sipHash24(secret.ConfirmKey(n), msg) != binary.LittleEndian.Uint64(p[52:]) {
		return c, false
	}
	size := 4
	if v6 {
		size = 16
	}
	c.edge = binary.BigEndian.Uint16(p[4:])
	c.sport, c.dport = binary.BigEndian.Uint16(p[16:]), binary.BigEndian.Uint16(p[18:])
	c.flow = string(p[20:20+size]) + string(p[36:36+size]) + string(p[16:20])
	return c, true
}

// flowOf is the form in which a confirmation names the connection of a client's segment.
func flowOf(s *segment) string {
	return string(s.src) + string(s.dst) + string([]byte{byte(s.sport >> 8), byte(s.sport), byte(s.dport >> 8), byte(s.dport)})
}
