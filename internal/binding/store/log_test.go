// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/binding"
)

func open(t testing.TB, dir string) (*Store, Recovery) {
	t.Helper()
	s, rec, err := Open(dir, testOptions(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	return s, rec
}

// smallLog is a directory with n records, an authority first, and the file's bytes.
func smallLog(t testing.TB, n int) (dir string, data []byte, ends []int) {
	t.Helper()
	dir = t.TempDir()
	s, _ := open(t, dir)
	ends = []int{len(logMagic)}
	add := func(r *binding.Record) {
		admit(t, s, r, binding.OK)
		ends = append(ends, ends[len(ends)-1]+logHeadLen+len(r.Raw()))
	}
	add(sign(t, spec{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.0.0.0/8"}}))
	for i := 1; i < n; i++ {
		add(sign(t, spec{by: "isp", to: fmt.Sprint("m", i), role: bm, prefixes: []string{fmt.Sprintf("10.%d.0.0/16", i)}}))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil || len(data) != ends[n] {
		t.Fatalf("%v, %d bytes, want %d", err, len(data), ends[n])
	}
	return dir, data, ends
}

// TestKilledAtEveryByte cuts the file at every byte, as a crash may: all that was
// whole comes back, and the store goes on from there.
func TestKilledAtEveryByte(t *testing.T) {
	_, data, ends := smallLog(t, 6)
	dir := t.TempDir()
	path := filepath.Join(dir, logName)
	next := sign(t, spec{by: "rir-a", to: "next", role: bm, prefixes: []string{"10.99.0.0/16"}})
	for cut := range len(data) + 1 {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= cut {
			whole++
		}
		s, rec := open(t, dir)
		wantCut := int64(cut - ends[whole])
		if cut < ends[0] {
			wantCut = int64(cut)
		}
		if s.Len() != whole || rec.BytesCut != wantCut {
			t.Fatalf("cut at %d: %d records and %d bytes cut, want %d and %d", cut, s.Len(), rec.BytesCut, whole, wantCut)
		}
		admit(t, s, next, binding.OK)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, rec = open(t, dir); s.Len() != whole+1 || rec.BytesCut != 0 {
			t.Fatalf("cut at %d and written on: %d records, %d bytes cut", cut, s.Len(), rec.BytesCut)
		}
		s.Close()
	}
}

// TestDamagedByte: a flipped byte loses nothing that stands before it, and is never believed.
func TestDamagedByte(t *testing.T) {
	_, data, ends := smallLog(t, 4)
	dir := t.TempDir()
	for at := len(logMagic); at < len(data); at++ {
		bad := bytes.Clone(data)
		bad[at] ^= 0x40
		if err := os.WriteFile(filepath.Join(dir, logName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		before := 0
		for ends[before+1] <= at {
			before++
		}
		s, rec := open(t, dir)
		if s.Len() != before || rec.BytesCut == 0 {
			t.Fatalf("byte %d: %d records, want %d; %d bytes cut", at, s.Len(), before, rec.BytesCut)
		}
		s.Close()
	}
}

// TestKilledWhileRewriting: the new file counts only once it has the name.
func TestKilledWhileRewriting(t *testing.T) {
	dir, data, _ := smallLog(t, 5)
	for cut := 0; cut <= len(data); cut += 7 {
		if err := os.WriteFile(filepath.Join(dir, logTemp), data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, rec := open(t, dir)
		if s.Len() != 5 || rec.BytesCut != 0 {
			t.Fatalf("cut at %d: %d records", cut, s.Len())
		}
		if _, err := os.Stat(filepath.Join(dir, logTemp)); !os.IsNotExist(err) {
			t.Fatal("the unfinished file is still there")
		}
		s.Close()
	}
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	var biggest int64
	var list []string
	for i := range 250 {
		list = append(list, fmt.Sprintf("10.%d.0.0/24", i))
	}
	for serial := uint64(1); serial < 900; serial++ {
		admit(t, s, sign(t, spec{by: "rir-a", to: "bm", role: bm, prefixes: list, serial: serial}), binding.OK)
		biggest = max(biggest, s.log.size)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if biggest < compactBytes || biggest > compactBytes+2*binding.MaxRecordLen {
		t.Errorf("the file grew to %d bytes", biggest)
	}
	s.Close()
	again, rec := open(t, dir)
	defer again.Close()
	if rec.Loaded != 1 || again.BorderManagerFor(netip.MustParseAddr("10.7.0.1")).Serial != 899 {
		t.Errorf("%+v", rec)
	}
}

func TestOpenChecksEverything(t *testing.T) {
	dir, _, _ := smallLog(t, 5)
	o := testOptions()
	o.Anchors = o.Anchors[1:] // rir-a is trusted no more
	s, rec, err := Open(dir, o, testNow)
	if err != nil || s.Len() != 0 || rec.Refused != 5 {
		t.Fatalf("%v, %d records, %+v", err, s.Len(), rec)
	}
	s.Close()
	// Forged on disk: a good checksum, a bad signature.
	bad := bytes.Clone(sign(t, spec{by: "rir-a", to: "bm", role: bm, prefixes: []string{"10.0.0.0/8"}}).Raw())
	bad[len(bad)-1] ^= 1
	if err := os.WriteFile(filepath.Join(dir, logName), append([]byte(logMagic), frame(bad)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, rec := open(t, dir); s.Len() != 0 || rec.Refused != 1 {
		t.Errorf("forged on disk: %d records", s.Len())
	}
}

// TestOpenInAnyOrder: records stand in the file before the authority they hang on.
func TestOpenInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	data := []byte(logMagic)
	for _, s := range []spec{
		{by: "sub", to: "bm", role: bm, prefixes: []string{"10.1.0.0/16"}},
		{by: "isp", to: "sub", role: auth, prefixes: []string{"10.1.0.0/16"}},
		{by: "rir-a", to: "isp", role: auth, prefixes: []string{"10.0.0.0/8"}},
	} {
		data = append(data, frame(sign(t, s).Raw())...)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, rec := open(t, dir); s.Len() != 3 {
		t.Errorf("%+v", rec)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir, _, _ := smallLog(t, 2)
	first, _ := open(t, dir)
	if _, _, err := Open(dir, testOptions(), testNow); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	first.Close()
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("something else altogether"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, testOptions(), testNow); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a foreign file: %v", err)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, logName)); string(data) != "something else altogether" {
		t.Error("the foreign file was changed")
	}
	if _, _, err := Open(t.TempDir(), Options{}, testNow); err == nil || !strings.Contains(err.Error(), "anchor") {
		t.Errorf("no anchors: %v", err)
	}
}

// TestAdmitWhileRewriting: what comes while the file is rewritten is in the new one.
func TestAdmitWhileRewriting(t *testing.T) {
	dir, _, _ := smallLog(t, 3)
	s, _ := open(t, dir)
	s.mu.Lock()
	list := s.list()
	s.rewriting = true
	s.mu.Unlock()
	admit(t, s, sign(t, spec{by: "rir-a", to: "meanwhile", role: bm, prefixes: []string{"10.99.0.0/16"}}), binding.OK)
	if err := s.compact(list); err != nil {
		t.Fatal(err)
	}
	admit(t, s, sign(t, spec{by: "rir-a", to: "afterwards", role: bm, prefixes: []string{"10.98.0.0/16"}}), binding.OK)
	s.Close()
	again, rec := open(t, dir)
	defer again.Close()
	if rec.Loaded != 5 || rec.BytesCut != 0 {
		t.Errorf("%+v, want all five", rec)
	}
}
