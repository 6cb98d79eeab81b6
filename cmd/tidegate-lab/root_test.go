// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
)

// run executes one command line and returns its exit code, stdout and stderr.
func run(root *cobra.Command, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := cli.Execute(root, args, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"flood", "--rate", "many"}, {"clean", "extra"}, {"bench", "--role", "none"}} {
		code, stdout, stderr := run(newRootCmd(), args...)
		if code != cli.ExitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tidegate-lab: ") {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// What measures for minutes looks first at whether it can write what it finds.
func TestSpeedLooksAtThePageFirst(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{empty: "has no place for the table", empty + ".none": "no such file"} {
		if code, _, stderr := run(newRootCmd(), "bench", "speed", "--write", page); code == 0 || !strings.Contains(stderr, want) || strings.Contains(stderr, "measuring") {
			t.Errorf("%s: code %d, %q, want %q", page, code, stderr, want)
		}
	}
}
