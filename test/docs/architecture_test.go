// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mapped are the folders and files of which ARCHITECTURE.md says what they are.
var mapped = []string{"[a-z]*/", "cmd/*/", "internal/*/", "internal/lab/*/", "internal/role/*/", "test/*/", "bpf/*.bpf.c"}

// The code map names every folder and every BPF entry file, and nothing that is not there.
func TestCodeMapIsComplete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := namesOfMap(string(page))
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(root, name))
		if err != nil || len(found) == 0 {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist (%v)", name, err)
		}
	}
	seen := 0
	for _, pattern := range mapped {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			path = strings.TrimPrefix(path, root+"/")
			if !notOurs[path] && strings.HasSuffix(pattern, "/") == isFolder(t, filepath.Join(root, path)) {
				seen++
				if !onMap(names, path) {
					t.Errorf("ARCHITECTURE.md does not say what %s is", path)
				}
			}
		}
	}
	if seen < 110 {
		t.Errorf("only %d folders and files were found", seen)
	}
	// The canary.
	names = namesOfMap("x/\n```\na/b a/c      two\n              and more/of it\n  d/ e.c    below\na/long/name one space\n```\nz/\n")
	if !slices.Equal(names, []string{"a/b", "a/c", "a/c/d", "a/c/e.c", "a/long/name"}) {
		t.Errorf("read as %q", names)
	}
	if onMap(names, "a/x") || !onMap(names, "a/long") || !onMap([]string{"bpf/lab_*.bpf.c"}, "bpf/lab_x.bpf.c") {
		t.Error("what is on a map is misjudged")
	}
}

// namesOfMap reads the first fence of a page: each line begins with one or more paths, and an indented one is below the last that is not.
func namesOfMap(page string) (names []string) {
	list := fences(page)
	if len(list) == 0 {
		return nil
	}
	above := ""
	for line := range strings.Lines(list[0].text) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent > 2 {
			continue
		}
		column, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		for _, name := range strings.Fields(column) {
			if !strings.ContainsAny(name, "/.") {
				break
			}
			name = strings.TrimSuffix(name, "/")
			if indent > 0 {
				name = above + "/" + name
			}
			names = append(names, name)
		}
		if indent == 0 && len(names) > 0 {
			above = names[len(names)-1]
		}
	}
	return names
}

// onMap says whether a path is named, by itself, by a pattern, or by what is in it.
func onMap(names []string, path string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		matched, err := filepath.Match(name, path)
		return err == nil && matched || strings.HasPrefix(name, path+"/")
	})
}

func isFolder(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.IsDir()
}
