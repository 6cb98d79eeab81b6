// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/keys"
)

// opensslKey was made by `openssl genpkey -algorithm ed25519` (OpenSSL 3.0); its
// public half by `openssl pkey -pubout -outform DER | tail -c 32`.
const (
	opensslKey    = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPMDYZ867sH4q12WCBx1hFOBN8Y90VPu0R0O8PBLeMUp\n-----END PRIVATE KEY-----\n"
	opensslPublic = "8e66ff9fc0ea2e1c74c78e047a8690765fcb3f71cf2b46a332385dface492f5d"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "isp.key")
	public, err := CreateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	private, err := LoadKeyFile(path)
	if err != nil || Key(private.Public().(ed25519.PublicKey)) != public {
		t.Errorf("%v: another key came back", err)
	}
	if _, err := CreateKeyFile(path); !errors.Is(err, keys.ErrSecret) || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("overwrote: %v", err)
	}
}

func TestKeyFileOfOpenSSL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(opensslKey), 0o600); err != nil {
		t.Fatal(err)
	}
	private, err := LoadKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := Key(private.Public().(ed25519.PublicKey)).String(); got != opensslPublic {
		t.Errorf("public key %s, want %s", got, opensslPublic)
	}
}

func TestKeyFileRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"open to the group", opensslKey, 0o640, "chmod 600"},
		{"not PEM", "nonsense", 0o600, keyMaker},
		{"two blocks", opensslKey + opensslKey, 0o600, keyMaker},
		{"public", strings.ReplaceAll(opensslKey, "PRIVATE", "PUBLIC"), 0o600, keyMaker},
		{"not DER", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600, "not hold an Ed25519"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(tc.text), tc.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyFile(path); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v does not say %q", tc.name, err, tc.want)
		}
	}
	if _, err := LoadKeyFile(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), keyMaker) {
		t.Errorf("missing: %v", err)
	}
}
