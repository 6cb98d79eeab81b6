// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fromElsewhere = regexp.MustCompile(`<(?:script|img|iframe)[^>]+src="https?://[^"]*"|<link[^>]+rel="stylesheet"[^>]+href="https?://[^"]*"`)

// The site's search works in a browser that has the site as a folder, without a server and without a network.
func TestSearchFromAFolder(t *testing.T) {
	chromium := os.Getenv("TIDEGATE_CHROMIUM")
	if chromium == "" {
		t.Skip("part of make test-web: it takes a browser")
	}
	index, err := filepath.Abs(filepath.Join(root, "build/site/index.html"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(index)
	if err != nil {
		t.Fatalf("%v; `make docs` builds the site", err)
	}
	if found := fromElsewhere.Find(page); found != nil {
		t.Errorf("the page loads %s", found)
	}
	search := func(words string) string {
		out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
			"--virtual-time-budget=10000", "--dump-dom", "file://"+index+"?q="+words).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if dom := search("SYNPROXY"); !strings.Contains(dom, "matching documents") || !strings.Contains(dom, "how-to/from-synproxy.html") {
		t.Error("a search for SYNPROXY does not find how to migrate from it")
	}
	if dom := search("xyzzyplugh"); !strings.Contains(dom, "No matching documents") {
		t.Error("a search for a word that no page has does not say so")
	}
}
