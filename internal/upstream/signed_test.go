// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/binding"
)

// Who may do what comes from signed records, and from nothing that is not below an
// anchor.
func TestSignedAuthority(t *testing.T) {
	dir := t.TempDir()
	seed := func(b byte) ed25519.PrivateKey {
		s := make([]byte, ed25519.SeedSize)
		s[0] = b
		return ed25519.NewKeyFromSeed(s)
	}
	public := func(k ed25519.PrivateKey) (out binding.Key) { copy(out[:], k.Public().(ed25519.PublicKey)); return out }
	registry, stranger, bm, fm := seed(1), seed(2), seed(3), seed(4)
	anchors := filepath.Join(dir, "anchors.yaml")
	text := "anchors:\n  - name: registry\n    key: " + public(registry).String() + "\n    prefixes: [10.0.0.0/8]\n"
	if err := os.WriteFile(anchors, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	record := func(role binding.Role, key, issuer ed25519.PrivateKey, prefix, at string) string {
		r, err := binding.Sign(binding.Record{Role: role, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
			Endpoints: []binding.Endpoint{{Service: binding.ServiceIFP, Addr: netip.MustParseAddrPort(at)}},
			Key:       public(key), Serial: 1, NotBefore: now - 10, NotAfter: now + 1000}, issuer)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, hex.EncodeToString(r.Raw()[len(r.Raw())-8:]))
		if err := os.WriteFile(path, r.Raw(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := binding.CreateKeyFile(filepath.Join(dir, "own.key")); err != nil {
		t.Fatal(err)
	}
	o := SignedOptions{Anchors: anchors, Dir: filepath.Join(dir, "store"), Key: filepath.Join(dir, "own.key"),
		Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Publish: []string{record(binding.BorderManager, bm, registry, "10.1.0.0/16", "192.0.2.1:4747"),
			record(binding.FilterManager, fm, registry, "10.9.0.0/16", "192.0.2.9:4746")}}
	s, err := OpenSigned(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := s.BorderManagerFor(netip.MustParseAddr("10.1.2.3"))
	if !ok || e.Addr != netip.MustParseAddrPort("192.0.2.1:4747") || !e.Key.Equal(bm.Public()) {
		t.Errorf("border manager %v %v", e, ok)
	}
	if _, ok := s.BorderManagerFor(netip.MustParseAddr("10.2.2.3")); ok {
		t.Error("a border manager for a prefix that nobody has bound")
	}
	ask := func(from, dst string) bool {
		_, ok := s.FilterManagerMayRequest(netip.MustParseAddr(from), netip.MustParsePrefix(dst))
		return ok
	}
	if !ask("192.0.2.9", "10.9.0.1/32") || !ask("192.0.2.9", "10.9.0.0/16") || ask("192.0.2.9", "10.8.0.0/15") ||
		ask("192.0.2.8", "10.9.0.1/32") || ask("192.0.2.9", "10.1.0.1/32") {
		t.Error("who may ask for filters")
	}
	s.Close()
	if s, err = OpenSigned(context.Background(), o); err != nil { // started again, nothing new to publish
		t.Fatalf("what is published already keeps a manager from starting: %v", err)
	}
	s.Close()
	o.Publish = []string{record(binding.FilterManager, fm, stranger, "10.5.0.0/16", "192.0.2.9:4746")}
	if s, err := OpenSigned(context.Background(), o); err == nil {
		s.Close()
		t.Error("a record that no anchor stands for was taken")
	}
	o.Publish, o.Key = nil, ""
	if s, err = OpenSigned(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !ask("192.0.2.9", "10.9.0.1/32") {
		t.Error("the store forgot")
	}
}
