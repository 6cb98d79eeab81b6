// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Workarounds for compilers and the BPF verifier have one name and one comment each, in these files.
var workaroundHomes = []string{"core/base.h", "core/siphash.h", "bpf/lib/kernel.h", "dpdk/pipeline/broadcast_avx2.h"}

var bareWorkaround = regexp.MustCompile(`\b(__)?asm(__)?\b|__attribute__\(\(noinline\)\) (int|__u64|__s64)`)

// bareWorkarounds returns the lines of a file that are workarounds without an explanation.
func bareWorkarounds(path, text string) []string {
	if slices.Contains(workaroundHomes, path) {
		return nil
	}
	return bareWorkaround.FindAllString(text, -1)
}

func TestWorkaroundsHaveNames(t *testing.T) {
	files := 0
	for _, pattern := range []string{"core/*.h", "bpf/*.c", "bpf/lib/*.h", "dpdk/pipeline/*.[ch]", "dpdk/tables/*.[ch]"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, path)
			for _, found := range bareWorkarounds(name, string(text)) {
				t.Errorf("%s: bare `%s`: use TG_HIDE, TG_BOUND, TG_FORGET, TG_BARRIER or TG_GLOBAL, or add a macro beside them that says which compiler or kernel needs it and when it may go", name, found)
			}
			files++
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

func TestWorkaroundRuleBites(t *testing.T) {
	for _, text := range []string{`asm volatile("" : "+r"(n));`, `__asm__("")`, "__attribute__((noinline)) int tg_canary(void)"} {
		if len(bareWorkarounds("bpf/lib/canary.h", text)) == 0 {
			t.Errorf("%s was not found", text)
		}
	}
}
