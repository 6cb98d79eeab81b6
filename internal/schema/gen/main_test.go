// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCommittedFiles fails if core/counters.def was changed without `make
// generate`, or if a generated file was edited.
func TestCommittedFiles(t *testing.T) {
	dir, root := t.TempDir(), "../../.."
	goOut, mdOut := filepath.Join(dir, "counters.go"), filepath.Join(dir, "counters.md")
	if err := generate(root+"/core/counters.def", goOut, mdOut); err != nil {
		t.Fatal(err)
	}
	abiOut := filepath.Join(dir, "abi.go")
	if err := generateABI(root+"/core/abi.def", abiOut); err != nil {
		t.Fatal(err)
	}
	for made, committed := range map[string]string{
		abiOut: root + "/internal/schema/abi.go",
		goOut:  root + "/internal/schema/counters.go",
		mdOut:  root + "/docs/counters.md",
	} {
		want, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what core/counters.def and core/abi.def make; run `make generate`", committed)
		}
	}
}

func TestParseABI(t *testing.T) {
	list, err := parseABI("/* a\n b */\n#ifndef X\nTG_ABI_MODE(AUTH_TTL, 4, \"auth-ttl\", \"one\")\nTG_ABI_MARK(OK, 4, \"\", \"two\")\n")
	if err != nil || len(list) != 2 || list[0] != (number{"MODE", "AUTH_TTL", "4", "auth-ttl", "one"}) || camel(list[0].name) != "AuthTTL" {
		t.Errorf("%v, %v", list, err)
	}
	const good = "TG_ABI_MODE(A, 0, \"a\", \"x\")\n"
	for _, bad := range []string{"", "TG_ABI_MODE(A, 0, \"a\")", "TG_ABI_MODE(A, x, \"a\", \"x\")", good + good,
		good + "TG_ABI_MODE(B, 0, \"b\", \"x\")", good + "TG_ABI_MODE(B, 1, \"a\", \"x\")"} {
		if list, err := parseABI(bad); err == nil {
			t.Errorf("%q: %v", bad, list)
		}
	}
}

func TestParse(t *testing.T) {
	list, err := parse("/* a\n b */\nX(syn, \"one\")\n\n  X(drop_tx,   \"two; three\")\n")
	if err != nil || len(list) != 2 || list[1] != (counter{"drop_tx", "two; three"}) {
		t.Errorf("%v, %v", list, err)
	}
	for _, bad := range []string{
		"", "X(syn)", `X(Syn, "a")`, `X(syn, "")`, `X(syn, "a"`, "Y(syn, \"a\")", "X(a, \"x\")\nX(a, \"y\")", "X(a, \"x\") X(b, \"y\")", "// X",
	} {
		if list, err := parse(bad); err == nil {
			t.Errorf("%q accepted: %v", bad, list)
		}
	}
}
