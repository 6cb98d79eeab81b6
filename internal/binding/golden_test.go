// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

type goldenFields struct {
	Role      string   `json:"role"`
	Prefixes  []string `json:"prefixes"`
	Endpoints []string `json:"endpoints"`
	Key       string   `json:"key"`
	Serial    uint64   `json:"serial"`
	NotBefore int64    `json:"not_before"`
	NotAfter  int64    `json:"not_after"`
	Issuer    string   `json:"issuer"`
	Revoked   bool     `json:"revoked"`
}

type goldenRecord struct {
	Name   string        `json:"name"`
	Code   string        `json:"code"`
	Raw    string        `json:"raw"`
	Slot   string        `json:"slot"`
	Digest string        `json:"digest"`
	Fields *goldenFields `json:"fields"`
}

func golden(t testing.TB) []goldenRecord {
	t.Helper()
	text, err := os.ReadFile("testdata/records.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Records []goldenRecord }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Records) < 60 {
		t.Fatalf("only %d golden records", len(file.Records))
	}
	return file.Records
}

// goldenKey is the key that testdata/generate.py calls name.
func goldenKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("tidegate golden " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func TestGoldenRecords(t *testing.T) {
	for _, g := range golden(t) {
		t.Run(g.Name, func(t *testing.T) {
			raw, err := hex.DecodeString(g.Raw)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Parse(raw)
			if got := CodeOf(err); got.String() != g.Code {
				t.Fatalf("code %s (%v), want %s", got, err, g.Code)
			}
			if g.Fields != nil {
				compareFields(t, r, g)
				signAgain(t, r, raw)
			}
		})
	}
}

// signAgain: what Go signs is what the other implementation signed, byte for byte.
func signAgain(t *testing.T, r *Record, raw []byte) {
	t.Helper()
	for _, name := range []string{"isp", "anchor"} {
		key := goldenKey(name)
		if !bytes.Equal(key.Public().(ed25519.PublicKey), r.Issuer[:]) {
			continue
		}
		again, err := Sign(*r, key)
		if err != nil || !bytes.Equal(again.Raw(), raw) {
			t.Errorf("signed again: %v, %x", err, again.Raw())
		}
		return
	}
	t.Error("no golden key is the issuer")
}

func compareFields(t *testing.T, r *Record, g goldenRecord) {
	t.Helper()
	have := goldenFields{Role: r.Role.String(), Key: r.Key.String(), Issuer: r.Issuer.String(), Serial: r.Serial,
		NotBefore: r.NotBefore, NotAfter: r.NotAfter, Revoked: r.Revoked, Prefixes: []string{}, Endpoints: []string{}}
	for _, p := range r.Prefixes {
		have.Prefixes = append(have.Prefixes, p.String())
	}
	for _, e := range r.Endpoints {
		have.Endpoints = append(have.Endpoints, e.String())
	}
	a, _ := json.Marshal(have)
	b, _ := json.Marshal(g.Fields)
	if string(a) != string(b) {
		t.Errorf("fields\n%s, want\n%s", a, b)
	}
	slot, digest := r.Slot(), r.Digest()
	if hex.EncodeToString(slot[:]) != g.Slot || hex.EncodeToString(digest[:]) != g.Digest {
		t.Errorf("slot %x digest %x, want %s %s", slot, digest, g.Slot, g.Digest)
	}
}

// TestGoldenRecordsAreWhatTheirWriterWrites reruns testdata/generate.py.
func TestGoldenRecordsAreWhatTheirWriterWrites(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("python3", "testdata/generate.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate.py: %v\n%s", err, out)
	}
	fresh, err := os.ReadFile(filepath.Join(dir, "records.json"))
	if err != nil {
		t.Fatal(err)
	}
	if have, _ := os.ReadFile("testdata/records.json"); !bytes.Equal(have, fresh) {
		t.Error("testdata/records.json is not what testdata/generate.py writes; run it")
	}
}
