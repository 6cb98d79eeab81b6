// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every record in docs/decisions has one row in the index, with its number and its heading, and every row has a record.
func TestDecisionsAreListed(t *testing.T) {
	dir := filepath.Join(root, "docs", "decisions")
	paths, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		records[filepath.Base(path)], _, _ = strings.Cut(string(text), "\n")
	}
	if len(records) < 80 {
		t.Errorf("only %d records were found", len(records))
	}
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range unlisted(string(index), records) {
		t.Error(complaint)
	}
	// The canary: a lost row, a row twice, one without a record, one with another heading, and one out of order.
	got := unlisted("| 2 | [B](0002-b.md) |\n| 2 | [B](0002-b.md) |\n| 3 | [C](0003-c.md) |\n| 4 | [d](0004-d.md) |\n| 1 | [A](0001-a.md) (superseded by 2) |\n",
		map[string]string{"0001-a.md": "# 1. A", "0002-b.md": "# 2. B", "0004-d.md": "# 4. D", "0005-e.md": "# 5. E"})
	if len(got) != 5 {
		t.Errorf("five things are wrong, reported: %q", got)
	}
}

var aRow = regexp.MustCompile(`(?m)^\| (\d+) \| \[(.*)\]\((\d+)(-[^)]*\.md)\)`)

// unlisted compares the rows of an index with the first lines of the records.
func unlisted(index string, records map[string]string) (complaints []string) {
	seen, last := map[string]bool{}, ""
	for _, m := range aRow.FindAllStringSubmatch(index, -1) {
		number, title, file := m[1], m[2], m[3]+m[4]
		heading, there := records[file]
		switch {
		case !there:
			complaints = append(complaints, fmt.Sprintf("row %s: there is no record %s", number, file))
		case seen[file]:
			complaints = append(complaints, fmt.Sprintf("row %s: %s is listed twice", number, file))
		case heading != fmt.Sprintf("# %s. %s", number, title) || m[3] != fmt.Sprintf("%04s", number):
			complaints = append(complaints, fmt.Sprintf("row %s, %q: %s begins with %q", number, title, file, heading))
		case file < last:
			complaints = append(complaints, fmt.Sprintf("row %s stands after %s", number, last))
		}
		seen[file], last = true, file
	}
	for file := range records {
		if !seen[file] {
			complaints = append(complaints, "docs/decisions/README.md has no row for "+file)
		}
	}
	slices.Sort(complaints)
	return complaints
}
