// SPDX-License-Identifier: Apache-2.0

// Package keys reads the secret of a fleet and derives the key of every epoch
// from it. It must know nothing of maps, programs or configuration, and it
// must never print, log or return the secret itself.
package keys

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20"
)

const (
	// SecretLen is the length of a secret in bytes.
	SecretLen = 32
	// EpochKeyLen is the length of an epoch's key in bytes: two SipHash words.
	EpochKeyLen = 16
	// PastEpochs is how many epochs before the present one keep their keys, so
	// that a genuine but late ACK can be told from a forged one.
	PastEpochs = 3

	cookieLabel      = "TGK1"
	fingerprintLabel = "TGF1"
)

// Secret is the master secret that all machines of a fleet share.
type Secret [SecretLen]byte

// Zero overwrites the secret. Call it as soon as no further key is derived.
func (s *Secret) Zero() { clear(s[:]) }

// String keeps the secret out of logs and error messages.
func (s Secret) String() string { return "(secret)" }

// GoString does the same for %#v.
func (s Secret) GoString() string { return "keys.Secret(secret)" }

// Format does the same for every other verb: %x, %d and their like.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// EpochKey derives the key of epoch n: the first 16 bytes of the ChaCha20
// block (RFC 8439 section 2.3) whose key is the secret, whose counter is 0
// and whose nonce is
//
//	 0       4               12
//	+-------+---------------+
//	| TGK1  | n, 64-bit LE  |
//	+-------+---------------+
//
// The packet paths read it as two little-endian 64-bit words k0, k1. Keys for anything else
// have another label in place of TGK1, so that no MAC of one kind is ever one of another.
func (s *Secret) EpochKey(n uint64) [EpochKeyLen]byte {
	return s.derive(cookieLabel, n)
}

// Fingerprint is the same for equal secrets, and tells nothing else of them.
func (s *Secret) Fingerprint() string {
	k := s.derive(fingerprintLabel, 0)
	return fmt.Sprintf("%x", k[:4])
}

// derive makes the key of epoch n for what the label names.
func (s *Secret) derive(label string, n uint64) [EpochKeyLen]byte {
	var nonce [chacha20.NonceSize]byte
	copy(nonce[:], label)
	binary.LittleEndian.PutUint64(nonce[len(label):], n)
	c, err := chacha20.NewUnauthenticatedCipher(s[:], nonce[:])
	if err != nil { // only for wrong lengths, and both are constants
		panic(err)
	}
	var key [EpochKeyLen]byte
	c.XORKeyStream(key[:], key[:])
	return key
}

// Epoch returns the number of the epoch that t falls into: floor(unix_ns / length_ns).
// Times before 1970 belong to epoch 0.
func Epoch(t time.Time, length time.Duration) uint64 {
	ns := t.UnixNano()
	if ns < 0 || length <= 0 {
		return 0
	}
	return uint64(ns) / uint64(length)
}

// EpochStart returns the instant at which epoch n begins.
func EpochStart(n uint64, length time.Duration) time.Time {
	return time.Unix(0, int64(n*uint64(length)))
}

// Epochs lists, in rising order, the epochs whose keys must be loaded at now
// so that the packet paths work until now+horizon: the PastEpochs before the
// present one, the present one, and all that begin within the horizon.
func Epochs(now time.Time, length, horizon time.Duration) []uint64 {
	present := Epoch(now, length)
	first := present - min(present, PastEpochs)
	last := max(present, Epoch(now.Add(horizon), length))
	list := make([]uint64, 0, last-first+1)
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

// Slots is how many keys a packet path must have room for: the epochs that begin within the
// horizon, PastEpochs, the present one, one that the horizon cuts off, one for a clock that is
// ahead, and one that is loaded while all of these may be in use. Rings round it up to a power of two.
func Slots(length, horizon time.Duration) int {
	return int(horizon/length) + PastEpochs + 4
}
