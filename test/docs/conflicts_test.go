// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// conflict is what git leaves in a file that it could not merge, at the beginning of a line.
var conflict = []string{"\n<<<<<<< ", "\n||||||| ", "\n=======\n", "\n>>>>>>> "}

// notOurs are folders of what is built, and of git.
var notOurs = map[string]bool{".git": true, "bin": true, "build": true, "demo": true}

// No file of the tree has markers of a merge in it: documents and data show them to readers, and no compiler complains.
func TestNoConflictMarkers(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && notOurs[entry.Name()] {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if marker := unmerged(text); marker != "" && !bytes.Contains(text, []byte{0}) {
			t.Errorf("%s has a line that begins with %q: finish the merge", path, marker)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 1500 {
		t.Errorf("only %d files were read", files)
	}
	// The canary: each marker is found, and other lines are not.
	for text, want := range map[string]bool{
		"<<<<<<< HEAD\nb\n": true, "a\n||||||| base\n": true, "a\n=======\n": true, "a\n>>>>>>> theirs\n": true,
		"a <<<<<<< HEAD\n": false, "a\n========\n": false, "| a |\n": false,
	} {
		if (unmerged([]byte(text)) != "") != want {
			t.Errorf("%q: reported %v", text, !want)
		}
	}
}

// unmerged returns the first marker in a text, or nothing.
func unmerged(text []byte) string {
	for _, marker := range conflict {
		if bytes.Contains(text, []byte(marker)) || bytes.HasPrefix(text, []byte(marker[1:])) {
			return marker[1:]
		}
	}
	return ""
}
