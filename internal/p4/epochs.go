// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"tidegate/internal/keys"
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

// readClock determines when the switch's clock was zero.
func (c *Controller) readClock() error {
	before := c.now()
	elapsed, err := c.sw.Elapsed()
	if err != nil {
		return err
	}
	took := c.now().Sub(before)
	zero := before.Add(took / 2).Add(-elapsed)
	if moved := zero.Sub(c.zero).Abs(); moved <= max(took, clockSlack) {
		return nil
	} else if !c.zero.IsZero() {
		c.log.Warn("the clocks have drifted apart; the epochs are reprogrammed", "by", moved)
		if err := c.forgetEpochs(func(uint64) bool { return true }); err != nil {
			return err
		}
	}
	c.zero = zero
	return nil
}

// forgetEpochs removes the entries of some epochs.
func (c *Controller) forgetEpochs(which func(n uint64) bool) error {
	for n, s := range c.epochs {
		if !which(n) {
			continue
		}
		for _, h := range s.handles {
			if err := c.sw.Delete(c.names.in(tableEpochs), h); err != nil {
				return err
			}
		}
		delete(c.epochs, n)
	}
	return nil
}

// loadEpochs loads the keys of all epochs from the present to the horizon, and
// removes those that are over.
func (c *Controller) loadEpochs() error {
	length := time.Duration(c.cfg.Epoch)
	now := c.now()
	present := keys.Epoch(now, length)
	last := keys.Epoch(now.Add(time.Duration(c.cfg.KeyHorizon)), length)
	for n := present; n <= last; n++ {
		if _, have := c.epochs[n]; have {
			continue
		}
		s := &span{first: tickOf(keys.EpochStart(n, length).Sub(c.zero)), end: tickOf(keys.EpochStart(n+1, length).Sub(c.zero))}
		if before := c.epochs[n-1]; before != nil { // no tick without a key, and none with two
			s.first = before.end
		}
		if behind := c.epochs[n+1]; behind != nil {
			s.end = behind.first
		}
		c.epochs[n] = s
		for _, p := range prefixes(s.first, s.end) {
			h, err := c.sw.Add(c.names.in(tableEpochs), []any{p}, c.names.in(actionKeys), c.keyParams(n)...)
			if err != nil {
				return fmt.Errorf("key of epoch %d: %w", n, err)
			}
			s.handles = append(s.handles, h)
		}
	}
	if err := c.loadTagKeys(present, last); err != nil {
		return err
	}
	// One epoch longer than it lasts: a switch that is behind still has packets of it.
	return c.forgetEpochs(func(n uint64) bool { return n+1 < present })
}

// keyParams are the action parameters for epoch n.
func (c *Controller) keyParams(n uint64) [][]byte {
	key, before := smartKey(c.secret, n), smartKey(c.secret, n-1)
	return [][]byte{u32(uint32(n)), u8(uint8(n & 1)), key[0], key[1], before[0], before[1]}
}

// ForgetKeys simulates that its controller has been away for the
// horizon: the switch has no key, and on_stale_keys decides.
func (c *Controller) ForgetKeys() error {
	return c.forgetEpochs(func(uint64) bool { return true })
}

// halfKey is a key of HalfSipHash: k0 and k1 in P4's format.
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
