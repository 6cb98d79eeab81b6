// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
)

// machines are the checks whose result depends on this machine, not on the configuration.
var machines = regexp.MustCompile(`^(privileges|kernel|BTF|bpffs|cgroup2|interface .*|port .*|route to .*|both directions .*|forwarding.*|device .*|huge pages|tidegate-dpdk|edge .*|peer .*|conntrack.*|MTU.*|.*program.*|.*helper.*|.*map.*)$`)

// `check` of the complete examples of the document, with the files that they name in place, finds no error of
// the configuration; without a file, it reports that file and nothing else.
func TestExamplesCheckClean(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range regexp.MustCompile("(?s)<!-- example: ([a-z0-9 -]+) -->\n```yaml [^\n]*\n(.*?)```\n<!-- end").FindAllStringSubmatch(string(text), -1) {
		t.Run(m[1], func(t *testing.T) {
			seen++
			dir := t.TempDir()
			example := strings.ReplaceAll(strings.ReplaceAll(m[2], "/etc/tidegate/", dir+"/"), "[eth0, eth1]", "[none0, none1]")
			example = strings.NewReplacer("eth0", "none0", "eth1", "none1").Replace(example)
			files := regexp.MustCompile(regexp.QuoteMeta(dir)+`/[a-z.-]+`).FindAllString(example, -1)
			for _, path := range files {
				if err := os.WriteFile(path, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := config.Parse("f", []byte(example))
			if err != nil {
				t.Fatal(err)
			}
			failed := func() (names []string) {
				for _, check := range Run(c).Checks {
					if check.Status == Fail && !machines.MatchString(check.Name) {
						names = append(names, check.Name+": "+check.Found)
					}
				}
				return names
			}
			away := files
			if slices.ContainsFunc(files, func(path string) bool { return filepath.Base(path) == "next-secret" }) {
				away = []string{filepath.Join(dir, "next-secret")} // one run takes seconds: it answers both questions
			} else if list := failed(); len(list) != 0 {
				t.Errorf("with all files in place: %q", list)
			}
			for _, path := range away {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			list := failed()
			for _, path := range away {
				if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, filepath.Base(path)) }) {
					t.Errorf("without %s: %q", filepath.Base(path), list)
				}
			}
			if len(list) != len(away) {
				t.Errorf("without %q: %q", away, list)
			}
		})
	}
	if seen < 10 {
		t.Errorf("%d examples were checked", seen)
	}
}
