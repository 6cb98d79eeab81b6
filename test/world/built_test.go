// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"path/filepath"
	"testing"
)

// What the runner has built is taken, with its own bytes and executable; what it has not is built.
func TestBuild(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "program")
	t.Setenv(BuiltVar, dir)
	if err := os.WriteFile(filepath.Join(dir, "canary"), []byte("built before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Build(to, "tidegate/test/canary"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "built before" {
		t.Errorf("got %q, %v", got, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("not executable: %v, %v", info, err)
	}
	if err := Build(to, "tidegate/no/such/program"); err == nil {
		t.Error("a program that is neither there nor can be built is reported as built")
	}
}
