// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
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
	for _, args := range [][]string{
		{"nonsense"}, {"--nonsense"}, {"version", "extra"}, {"keygen"}, {"keygen", "a", "b"}, {"check", "--nonsense"},
	} {
		code, stdout, stderr := run(newRootCmd(), args...)
		if code != cli.ExitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tidegate: ") {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	code, stdout, _ := run(newRootCmd(), "version")
	if code != cli.ExitOK || !strings.HasPrefix(stdout, "tidegate ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("version: code %d, %q", code, stdout)
	}
	code, stdout, stderr := run(newRootCmd(), "--help")
	if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "keygen") {
		t.Errorf("help: code %d, %q %q", code, stdout, stderr)
	}
}

func TestKeygen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	code, stdout, stderr := run(newRootCmd(), "keygen", path)
	if code != cli.ExitOK || stdout != "" || len(stderr) > 64+len(path) {
		t.Errorf("keygen: code %d, %q %q", code, stdout, stderr)
	}
	code, _, stderr = run(newRootCmd(), "keygen", path)
	if code != cli.ExitError || !strings.Contains(stderr, "not overwritten") {
		t.Errorf("keygen again: code %d, %q", code, stderr)
	}
}
