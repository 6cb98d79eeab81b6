// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"tidegate/internal/keys"
)

// keyMaker is the command that error messages recommend.
const keyMaker = "tidegate binding keygen"

// maxKeyFile bounds what is read of a file that may not be a key. A key has 119 bytes.
const maxKeyFile = 4096

// CreateKeyFile writes a new Ed25519 key to path, mode 0600, as PKCS #8 in PEM (what
// `openssl genpkey -algorithm ed25519` writes). It never overwrites.
func CreateKeyFile(path string) (Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("no randomness: %w", err)
	}
	defer clear(private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Key{}, err
	}
	defer clear(der)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	defer clear(text)
	return Key(public), keys.CreatePrivate(path, text)
}

// LoadKeyFile reads a private key. The file must be regular, owned by root or by
// us, and closed to everybody else. Errors reveal no content.
func LoadKeyFile(path string) (ed25519.PrivateKey, error) {
	text, err := keys.ReadPrivate(path, maxKeyFile, keyMaker)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) != 0 {
		return nil, fmt.Errorf("%w %s does not hold one PEM block PRIVATE KEY; make one with `%s`", keys.ErrSecret, path, keyMaker)
	}
	defer clear(block.Bytes)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w %s does not hold an Ed25519 key; make one with `%s`", keys.ErrSecret, path, keyMaker)
	}
	return key, nil
}
