// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands of the documents. A fence
//
//	```sh run           is a script; it must succeed
//	```yaml file=NAME   is written to NAME; it must be a valid configuration
//
// The fences of one document share one empty directory, in their order, with
// the tidegate of this tree first in PATH.
package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/test/world"
)

const root = "../.."

type fence struct {
	line int
	info string // what follows the three ticks
	text string
}

func fences(markdown string) []fence {
	var list []fence
	var open *fence
	for i, line := range strings.Split(markdown, "\n") {
		ticks := strings.HasPrefix(line, "```")
		switch {
		case open == nil && ticks:
			open = &fence{line: i + 1, info: strings.TrimSpace(line[3:])}
		case open != nil && ticks:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return list
}

func TestDocuments(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	bin := t.TempDir()
	for _, program := range []string{"tidegate", "tidegate-lab"} {
		if err := world.Build(filepath.Join(bin, program), "tidegate/cmd/"+program); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			ran += runFences(t, fences(string(text)), bin)
		})
	}
	if ran == 0 {
		t.Error("no document has a runnable fence: the convention must have changed")
	}
}

// runFences executes the fences and returns how many.
func runFences(t *testing.T, list []fence, bin string) int {
	dir, ran := t.TempDir(), 0
	for _, f := range list {
		if name, ok := strings.CutPrefix(f.info, "yaml file="); ok {
			ran++
			if _, err := config.Parse(name, []byte(f.text)); err != nil {
				t.Errorf("line %d: %v", f.line, err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(f.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if f.info == "sh run" {
			ran++
			cmd := exec.Command("bash", "-euo", "pipefail", "-c", f.text)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("line %d: %v\n%s%s", f.line, err, f.text, out)
			}
		}
	}
	return ran
}

func TestFences(t *testing.T) {
	got := fences("a\n```sh run\nx\ny\n```\n\n```yaml file=w.yaml\nk: v\n```\n```\nplain\n```\n")
	if len(got) != 3 || got[0] != (fence{2, "sh run", "x\ny\n"}) || got[1].info != "yaml file=w.yaml" || got[2].info != "" {
		t.Errorf("%+v", got)
	}
}
