package p4

import (
	"encoding/binary"
	"math/bits"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// The switch finds its keys by its own clock: a tick is 1,024 microseconds of
// ingress_global_timestamp, and an epoch is the prefixes that its ticks make up.
const (
	tickUs   = 1024
	tickBits = 40
)

// tickOf is the first tick that does not begin before `at` of the switch's clock.
func tickOf(at time.Duration) uint64 {
	us := max(at.Microseconds(), 0)
	return uint64((us + tickUs - 1) / tickUs)
}

// prefixes splits [first, end) into prefixes of tickBits bits.
func prefixes(first, end uint64) []simpleswitch.LPM {
	var out []simpleswitch.LPM
	for first < end {
		size := min(bits.TrailingZeros64(first|1<<tickBits), bits.Len64(end-first)-1)
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], first)
		out = append(out, simpleswitch.LPM{Key: key[8-tickBits/8:], Len: tickBits - size})
		first += 1 << size
	}
	return out
}

// halfKey is a key of HalfSipHash: k0 and k1 as P4 takes them.
type halfKey [2][]byte

// smartKey is the key of epoch n for the layout smartcookie.
func smartKey(s Secret, n uint64) halfKey {
	raw := s.SmartKey(n)
	return halfKey{u32(binary.LittleEndian.Uint32(raw[:])), u32(binary.LittleEndian.Uint32(raw[4:]))}
}

func u8(v uint8) []byte   { return []byte{v} }
func u16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

func flag(v bool) []byte {
	if v {
		return u8(1)
	}
	return u8(0)
}
