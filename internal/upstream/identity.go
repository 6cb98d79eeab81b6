// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/keys"
)

// Identity is the private key of a manager or patrol. Its file is made by
// `tidegate keygen FILE`; others know it by its public key.
type Identity struct{ private ed25519.PrivateKey }

// LoadIdentity reads a file made by `tidegate keygen`, or by `tidegate binding
// keygen`: a border manager whose binding is signed has one key for both.
func LoadIdentity(path string) (*Identity, error) {
	if begin, err := os.ReadFile(path); err == nil && bytes.HasPrefix(begin, []byte("-----BEGIN")) {
		key, err := binding.LoadKeyFile(path)
		if err != nil {
			return nil, err
		}
		return &Identity{key}, nil
	}
	secret, err := keys.LoadSecret(path)
	if err != nil {
		return nil, err
	}
	defer secret.Zero()
	return NewIdentity(secret), nil
}

// NewIdentity makes the key whose seed is the secret (RFC 8032 section 5.1.5).
func NewIdentity(secret *keys.Secret) *Identity {
	return &Identity{ed25519.NewKeyFromSeed(secret[:])}
}

// Public is the key that others know.
func (i *Identity) Public() ed25519.PublicKey { return i.private.Public().(ed25519.PublicKey) }

// Sign signs a message.
func (i *Identity) Sign(message []byte) []byte { return ed25519.Sign(i.private, message) }

// errPeer refuses a peer whose key is not configured.
var errPeer = errors.New("the peer's key is not one that is configured here")

// TLS returns a configuration for either side of a mutually authenticated connection:
// TLS 1.3, and the other's key must be one of peers. Names and dates
// in certificates are ignored; the key is the identity.
func (i *Identity) TLS(peers ...ed25519.PublicKey) (*tls.Config, error) {
	return i.TLSWith(func(key ed25519.PublicKey) bool {
		return slices.ContainsFunc(peers, func(p ed25519.PublicKey) bool { return bytes.Equal(p, key) })
	})
}

// TLSWith is TLS for peers that may change: those whose key known accepts at the time of the handshake.
func (i *Identity) TLSWith(known func(ed25519.PublicKey) bool) (*tls.Config, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tidegate"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, i.Public(), i.private)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: i.private}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // the check below takes its place on both sides
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errPeer
			}
			key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || !known(key) {
				return errPeer
			}
			return nil
		},
	}, nil
}
