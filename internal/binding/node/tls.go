// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"tidegate/internal/binding"
)

// alpn names the protocol and its version in the handshake.
const alpn = "tidegate-bindings/1"

// certificate wraps a key as TLS wants it. Only the key counts: who it belongs to
// is said by bindings, not by X.509.
func certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "tidegate manager"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280, 4.1.2.5: no end
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of the manager's key: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// peerKey is the Ed25519 key that the other end has proven to hold.
func peerKey(cs tls.ConnectionState) (binding.Key, error) {
	if cs.NegotiatedProtocol != alpn {
		return binding.Key{}, fmt.Errorf("the peer does not speak %s", alpn)
	}
	if len(cs.PeerCertificates) != 1 {
		return binding.Key{}, errors.New("the peer must send exactly one certificate")
	}
	key, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return binding.Key{}, errors.New("the peer's certificate does not hold an Ed25519 key")
	}
	return binding.Key(key), nil
}

// tlsConfig is TLS 1.3 with certificates on both sides; accept judges the peer's
// key, and the handshake fails if it returns an error.
func tlsConfig(cert tls.Certificate, accept func(binding.Key) error) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             tls.RequireAnyClientCert,
		NextProtos:             []string{alpn},
		SessionTicketsDisabled: true,
		// No name and no authority of X.509 is checked, but the key itself is, below:
		// in every handshake, because without tickets none is resumed.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			key, err := peerKey(cs)
			if err != nil {
				return err
			}
			return accept(key)
		},
	}
}
