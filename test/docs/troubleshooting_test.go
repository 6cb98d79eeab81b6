// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/schema"
)

// docs/troubleshooting.md has every counter of dropped or passed packets and every condition, and no others.
func TestTroubleshootingNamesEverything(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(root + "/internal/status/conditions.go")
	if err != nil {
		t.Fatal(err)
	}
	var conditions []string
	for _, m := range regexp.MustCompile(`(?m)^\tCond\w+ += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		conditions = append(conditions, m[1])
	}
	var counters []string
	for c := range schema.NumCounters {
		counters = append(counters, schema.Counter(c).String())
	}
	for _, complaint := range troubles(string(text), counters, conditions) {
		t.Error(complaint)
	}
	if len(conditions) < 5 {
		t.Errorf("conditions %q: the constants must have changed their form", conditions)
	}
	// The canary: an entry that is missing or does not exist is detected.
	if got := troubles("| `drop_made_up` | a | b |\n", []string{"drop_flags"}, []string{"no-listener"}); len(got) != 3 {
		t.Errorf("three things are wrong, reported: %q", got)
	}
}

// troubles compares the first column of a page's tables with counters and conditions.
func troubles(page string, counters, conditions []string) (complaints []string) {
	known := map[string]bool{}
	for _, c := range append(append([]string{}, counters...), conditions...) {
		known[c] = true
	}
	there := map[string]bool{}
	word := regexp.MustCompile("`([a-z][a-z0-9_-]+)`")
	for line := range strings.Lines(page) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range word.FindAllStringSubmatch(first, -1) {
			there[m[1]] = true
			if !known[m[1]] {
				complaints = append(complaints, "docs/troubleshooting.md names "+m[1]+", which is neither a counter nor a condition")
			}
		}
	}
	for _, c := range counters {
		if (strings.HasPrefix(c, "drop_") || strings.HasPrefix(c, "pass_")) && !there[c] {
			complaints = append(complaints, "docs/troubleshooting.md does not explain the counter "+c)
		}
	}
	for _, c := range conditions {
		if !there[c] {
			complaints = append(complaints, "docs/troubleshooting.md does not explain the condition "+c)
		}
	}
	return complaints
}
