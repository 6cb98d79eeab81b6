// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"crypto/ed25519"
	"crypto/rand"

	"github.com/veraison/go-cose"
)

// Sign fills in the issuer, writes the record and signs it. Prefixes are sorted
// and those inside others dropped. It returns a record as Decode would.
func Sign(r Record, key ed25519.PrivateKey) (*Record, error) {
	copy(r.Issuer[:], key.Public().(ed25519.PublicKey))
	r.Prefixes = SortPrefixes(r.Prefixes)
	if err := r.check(); err != nil {
		return nil, err
	}
	payload, err := encMode.Marshal(r.wire())
	if err != nil {
		return nil, err
	}
	msg := cose.NewSign1Message()
	msg.Headers.Protected.SetAlgorithm(cose.AlgorithmEdDSA)
	msg.Payload = payload
	signer, err := cose.NewSigner(cose.AlgorithmEdDSA, key)
	if err != nil {
		return nil, err
	}
	if err := msg.Sign(rand.Reader, externalAAD, signer); err != nil {
		return nil, err
	}
	raw, err := msg.MarshalCBOR()
	if err != nil {
		return nil, err
	}
	return Decode(raw)
}
