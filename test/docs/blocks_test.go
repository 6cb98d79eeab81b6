// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The site's Markdown makes a heading, a table or a list only of a block that begins after an empty line, where other
// readers of Markdown need none; without it, a heading becomes a row of the table above.
func TestBlocksBeginAfterEmptyLines(t *testing.T) {
	pages := 0
	for _, pattern := range []string{"*.md", "*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, "docs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, complaint := range crowded(string(text)) {
				t.Errorf("%s:%s", path, complaint)
			}
			pages++
		}
	}
	if pages < 60 {
		t.Errorf("only %d pages were found", pages)
	}
	// The canary.
	if got := crowded("| a |\n|---|\n| b |\n### Lost\ntext\n- lost\n- too\n\n- kept\n```\n# not\n```\n"); len(got) != 2 {
		t.Errorf("two lines are wrong, reported: %q", got)
	}
}

var (
	aHeading = regexp.MustCompile(`^#{1,6} `)
	anItem   = regexp.MustCompile(`^([-*]|\d+\.) `)
	aTable   = regexp.MustCompile(`^\|`)
)

// crowded names the lines that begin a block and follow another one directly.
func crowded(page string) (complaints []string) {
	fence, before, inList := false, "", false
	front := strings.HasPrefix(page, "---\n")
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			fence = !fence
		} else if !fence && !front {
			free := before == "" || strings.HasPrefix(before, "<!--")
			switch {
			case aHeading.MatchString(line) && !free,
				aTable.MatchString(line) && !free && !aTable.MatchString(before),
				anItem.MatchString(line) && !free && !inList:
				complaints = append(complaints, fmt.Sprintf("%d: put an empty line before %q", i+1, line))
			}
			inList = anItem.MatchString(line) || inList && line != "" && !aHeading.MatchString(line) || inList && strings.HasPrefix(line, " ")
		}
		if front && i > 0 && line == "---" {
			front, line = false, ""
		}
		before = line
	}
	return complaints
}
