package keys

import (
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
)

const tagNoncePrefix = "TGT1"

// TagKey derives the key of the tags and confirmations of epoch n
// (docs/split-protocol.md): as EpochKey, with TGT1 in the nonce, so that no
// cookie's MAC is ever a tag's.
func (s *Secret) TagKey(n uint64) [EpochKeyLen]byte {
	var nonce [chacha20.NonceSize]byte
	copy(nonce[:], tagNoncePrefix)
	binary.LittleEndian.PutUint64(nonce[len(tagNoncePrefix):], n)
	c, err := chacha20.NewUnauthenticatedCipher(s[:], nonce[:])
	if err != nil { // only for wrong lengths, and both are constants
		panic(err)
	}
	var key [EpochKeyLen]byte
	c.XORKeyStream(key[:], key[:])
	return key
}
