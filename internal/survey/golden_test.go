// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Rules as the usual programs write them, loaded into a namespace. A line `# want DESTINATION
// adopt` or `# want DESTINATION translate ID,ID` says what must be found. Rules of iptables are
// loaded both as nftables and as legacy tables.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d files of rules: %v", len(paths), err)
	}
	loaders := map[string][][]string{".nft": {{"nft", "-f", "-"}}, ".iptables": {{"iptables-nft-restore"}, {"iptables-legacy-restore"}}}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, load := range loaders[filepath.Ext(path)] {
			t.Run(filepath.Base(path)+"/"+load[0], func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				run(t, ns, string(text), load...)
				expect(t, read(t, ns), string(text))
			})
		}
	}
}

func expect(t *testing.T, m *Machine, text string) {
	t.Helper()
	wants := 0
	for line := range strings.Lines(text) {
		want, there := strings.CutPrefix(line, "# want ")
		if !there {
			continue
		}
		wants++
		words := append(strings.Fields(want), "")
		expectOf(t, m, to(words[0]), strings.TrimSpace(strings.Join(words[1:], " ")))
	}
	if wants == 0 {
		t.Error("nothing is wanted of these rules")
	}
}

// expectOf compares a verdict with "adopt", or with "translate" and what must be found.
func expectOf(t *testing.T, m *Machine, d Destination, want string) {
	t.Helper()
	v := m.Judge(d)
	var ids []string
	for _, f := range v.Findings {
		if ids = append(ids, f.ID); f.Reason == "" || f.Show == "" {
			t.Errorf("%v: a finding without reason or command: %+v", d, f)
		}
	}
	got := strings.TrimSpace(string(v.Takeover) + " " + strings.Join(slices.Compact(ids), ","))
	if got != want {
		t.Errorf("%v: %s, want %s: %s", d, got, want, v.Reason())
	}
}
