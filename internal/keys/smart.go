// SPDX-License-Identifier: Apache-2.0

package keys

const (
	// SmartKeyLen is the length of a key of the layout smartcookie in bytes.
	SmartKeyLen = 8
	smartLabel  = "TGH1"
)

// SmartKey derives the key of epoch n for the layout smartcookie
// (core/cookie_smartcookie.h): as EpochKey, with TGH1 in the nonce, so that an exhaustive search of its 64
// bits reveals nothing about the other keys. The packet paths read it
// as two little-endian 32-bit words k0, k1.
func (s *Secret) SmartKey(n uint64) [SmartKeyLen]byte {
	key := s.derive(smartLabel, n)
	return [SmartKeyLen]byte(key[:SmartKeyLen])
}
