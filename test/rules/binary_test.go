// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const root = "../.."

// holds returns which compiled BPF programs a binary has embedded. It looks for the whole object: two objects may have
// functions in common.
func holds(t *testing.T, binary []byte, objects []string) (found []string) {
	t.Helper()
	for _, path := range objects {
		object, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(binary, object) {
			found = append(found, filepath.Base(path))
		}
	}
	return found
}

func build(t *testing.T, program string) []byte {
	t.Helper()
	exe := filepath.Join(t.TempDir(), program)
	if out, err := exec.Command("go", "build", "-o", exe, root+"/cmd/"+program).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The flood's programs are in tidegate-lab and not in tidegate, whose own are found.
func TestBinaries(t *testing.T) {
	var ofTheLab []string
	for _, pattern := range []string{"internal/lab/*/*.o", "internal/bench/*/*.o"} {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(list) == 0 {
			t.Fatalf("no objects at %s: %v", pattern, err)
		}
		ofTheLab = append(ofTheLab, list...)
	}
	ours, err := filepath.Glob(filepath.Join(root, "internal/plane/*/*.o"))
	if err != nil || len(ours) == 0 {
		t.Fatalf("no objects of the gates: %v", err)
	}
	tidegate, lab := build(t, "tidegate"), build(t, "tidegate-lab")
	if found := holds(t, tidegate, ofTheLab); len(found) != 0 {
		t.Errorf("tidegate contains %v", found)
	}
	if found := holds(t, tidegate, ours); len(found) != len(ours) {
		t.Errorf("of its own %d objects tidegate contains only %v: they are looked for in the wrong way", len(ours), found)
	}
	if found := holds(t, lab, ofTheLab); len(found) != len(ofTheLab) {
		t.Errorf("of %d objects tidegate-lab contains only %v: they are looked for in the wrong way", len(ofTheLab), found)
	}
	t.Logf("tidegate %d bytes, tidegate-lab %d", len(tidegate), len(lab))
}
