// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var include = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]+(\S+)`)

// coreIncludes: a file of core/ includes its neighbours, three standard headers and nothing else.
func coreIncludes(text string, neighbours map[string]bool) (broken []string) {
	for _, m := range include.FindAllStringSubmatch(text, -1) {
		switch what := m[1]; {
		case what == "<stdint.h>", what == "<stddef.h>", what == "<stdbool.h>":
		case strings.HasPrefix(what, `"`) && neighbours[strings.Trim(what, `"`)]:
		default:
			broken = append(broken, fmt.Sprintf("includes %s", what))
		}
	}
	return broken
}

func TestCoreIsFreestanding(t *testing.T) {
	neighbours, texts := map[string]bool{}, map[string]string{}
	entries, err := os.ReadDir(filepath.Join(root, "core"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); ext != ".h" && ext != ".def" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, "core", name))
		if err != nil {
			t.Fatal(err)
		}
		neighbours[name], texts[name] = true, string(text)
	}
	if len(texts) < 20 {
		t.Fatalf("only %d files in core/", len(texts))
	}
	for name, text := range texts {
		for _, b := range coreIncludes(text, neighbours) {
			t.Errorf("core/%s %s", name, b)
		}
	}
}

func TestCoreRuleBites(t *testing.T) {
	neighbours := map[string]bool{"cookie.h": true}
	for text, want := range map[string]int{
		"#include <stdint.h>\n#include \"cookie.h\"\n": 0,
		"// #include <string.h>\n":                     0,
		"#include <string.h>\n":                        1,
		"  #  include <linux/bpf.h>\n":                 1,
		"#include \"../bpf/lib/maps.h\"\n":             1,
		"#include \"gone.h\"\n#include <math.h>\n":     2,
		"#include TG_PLATFORM\n":                       1,
	} {
		if got := coreIncludes(text, neighbours); len(got) != want {
			t.Errorf("%q: %v, want %d", text, got, want)
		}
	}
}
