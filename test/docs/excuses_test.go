// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// excuses say that the machine, not the program, is to blame for a figure.
var excuses = regexp.MustCompile(`(?i)\b(?:on a|a shared|the same) (?:busy|shared|2-core|two-core|virtual)[^.]{0,30} machine\b|other work on|busy with other work|from minute to minute|noisy numbers|busy (?:virtual )?machine|shared (?:cores|processors|CPUs)|usual speed|load average|machine was (?:busy|shared)`)

// Figures with the machine's circumstances stand on pages of results, not where users read what to do.
func TestNoExcusesForUsers(t *testing.T) {
	site, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	user, results, ok := strings.Cut(string(site), "  - Results:\n")
	if !ok {
		t.Fatal("mkdocs.yml has no Results")
	}
	pages := regexp.MustCompile(`[\w/-]+\.md`).FindAllString(user[strings.Index(user, "\nnav:"):], -1)
	if len(pages) < 40 || !strings.Contains(results, "results/") {
		t.Fatalf("%d pages for users", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		if said := excuses.Find([]byte(strings.ReplaceAll(string(text), "\n", " "))); said != nil {
			t.Errorf("%s says %q: move the figure to docs/results/, and state here what does not depend on the machine", page, said)
		}
	}
}
