// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

// ErrSecret is the class of all errors of a secret file.
var ErrSecret = errors.New("secret file")

// secretFileMax bounds what is read of an arbitrary file.
const secretFileMax = 2*SecretLen + 2

// CreateSecret writes a new random secret to path: 64 hex digits and a newline,
// mode 0600. It never overwrites and never follows a link.
func CreateSecret(path string) error {
	var s Secret
	defer s.Zero()
	if _, err := rand.Read(s[:]); err != nil {
		return fmt.Errorf("%w %s: no randomness: %w", ErrSecret, path, err)
	}
	text := make([]byte, 2*SecretLen+1)
	defer clear(text)
	hex.Encode(text, s[:])
	text[2*SecretLen] = '\n'
	return CreatePrivate(path, text)
}

// LoadSecret reads the secret at path. The file must be a regular one, owned
// by root or by us, inaccessible to others, and hold 64 hex digits.
func LoadSecret(path string) (*Secret, error) {
	text, err := ReadPrivate(path, secretFileMax, "tidegate keygen")
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return parseSecret(path, text)
}

// parseSecret decodes 64 hex digits, optionally followed by one newline. Its
// errors name lengths and positions, never content.
func parseSecret(path string, text []byte) (*Secret, error) {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if len(text) != 2*SecretLen {
		have := fmt.Sprintf("%d characters", len(text))
		if len(text) > 2*SecretLen {
			have = "more"
		}
		return nil, fmt.Errorf("%w %s must hold exactly %d hex digits but holds %s; make one with `tidegate keygen`",
			ErrSecret, path, 2*SecretLen, have)
	}
	s := new(Secret)
	if _, err := hex.Decode(s[:], text); err != nil {
		s.Zero()
		return nil, fmt.Errorf("%w %s holds a character that is not a hex digit; make one with `tidegate keygen`", ErrSecret, path)
	}
	return s, nil
}

// reason strips the path that os errors repeat.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
