package keys

import (
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
)

const (
	// SmartKeyLen is the length of a key of the layout smartcookie in bytes.
	SmartKeyLen      = 8
	smartNoncePrefix = "TGH1"
)

// SmartKey derives the key of epoch n for the layout smartcookie
// (core/cookie_smartcookie.h): as EpochKey, with TGH1 in the nonce, so that 64 bits
// that can be searched give nothing away of the other keys. The packet paths read it
// as two little-endian 32-bit words k0, k1.
func (s *Secret) SmartKey(n uint64) [SmartKeyLen]byte {
	var nonce [chacha20.NonceSize]byte
	copy(nonce[:], smartNoncePrefix)
	binary.LittleEndian.PutUint64(nonce[len(smartNoncePrefix):], n)
	c, err := chacha20.NewUnauthenticatedCipher(s[:], nonce[:])
	if err != nil { // only for wrong lengths, and both are constants
		panic(err)
	}
	var key [SmartKeyLen]byte
	c.XORKeyStream(key[:], key[:])
	return key
}
