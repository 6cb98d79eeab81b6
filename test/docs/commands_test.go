// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/test/world"
)

// named finds commands of ours in a document: in fences and between backticks.
var named = regexp.MustCompile("(?m)(?:^|[`|(;&] *)(?:[A-Z_]+=\\S+ )*(?:bin/|/)?(tidegate|tidegate-lab)((?: +[a-z][a-z0-9-]*){1,3})?((?: [^`\n#|&;)]*)?)")

var flag = regexp.MustCompile(`(?:^|[\s\[])(--[a-z][a-z0-9-]*|-[a-zA-Z])\b`)

// notCommands are a label of the key derivation, and metadata of a rule of Suricata.
var notCommands = map[string]bool{"tidegate slot": true, "tidegate reflected": true}

// Every command and every flag that a document names exists.
func TestCommandsExist(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"tidegate", "tidegate-lab"} {
		if err := world.Build(filepath.Join(bin, program), "tidegate/cmd/"+program); err != nil {
			t.Fatal(err)
		}
	}
	helps := map[string]string{}
	help := func(words ...string) string {
		key := strings.Join(words, " ")
		if _, ok := helps[key]; !ok {
			out, err := exec.Command(filepath.Join(bin, words[0]), append(words[1:], "--help")...).CombinedOutput()
			_, usage, _ := strings.Cut(string(out), "Usage:\n")
			if err != nil || !strings.HasPrefix(strings.TrimSpace(usage)+" ", key+" ") {
				out = nil
			}
			helps[key] = string(out)
		}
		return helps[key]
	}
	var paths []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/how-to/*.md", "docs/results/features.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	seen := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range named.FindAllStringSubmatch(joined, -1) {
			words := append([]string{m[1]}, strings.Fields(m[2])...)
			if len(words) == 1 || notCommands[strings.Join(words[:2], " ")] {
				continue
			}
			command := ""
			for n := len(words); n > 1 && command == ""; n-- {
				command = help(words[:n]...)
			}
			if command == "" {
				t.Errorf("%s: there is no command %q: %s", filepath.Base(path), strings.Join(words, " "), m[0])
				continue
			}
			seen++
			for _, f := range flag.FindAllStringSubmatch(m[3], -1) {
				if !regexp.MustCompile(regexp.QuoteMeta(f[1]) + `\b`).MatchString(command) {
					t.Errorf("%s: %q has no flag %s: %s", filepath.Base(path), strings.Join(words, " "), f[1], m[0])
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d commands were found", seen)
	}
}
