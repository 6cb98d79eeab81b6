package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run executes one command line and returns its exit code, stdout and stderr.
func run(root *cobra.Command, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := execute(root, args, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"}, {"--nonsense"}, {"version", "extra"}, {"keygen"}, {"keygen", "a", "b"}, {"check", "--nonsense"},
	} {
		code, stdout, stderr := run(newRootCmd(), args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tidegate: ") {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestRunErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"plain", errors.New("no luck"), exitError, "tidegate: no luck\n"},
		{"several lines become one", errors.New("no\n  luck\n"), exitError, "tidegate: no; luck\n"},
		{"silent", fmt.Errorf("check: %w", errSilent), exitError, ""},
		{"usage found late", usageErrorf("--rate %d is negative", -1), exitUsage, "tidegate: --rate -1 is negative; see `tidegate x --help`\n"},
		{"list", lines{"a", "b"}, exitError, "tidegate: a\ntidegate: b\n"},
	} {
		root := newRootCmd()
		root.AddCommand(&cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return tc.err }})
		code, stdout, stderr := run(root, "x")
		if code != tc.code || stdout != "" || stderr != tc.stderr {
			t.Errorf("%s: code %d, stdout %q, stderr %q", tc.name, code, stdout, stderr)
		}
	}
}

type lines []string

func (l lines) Error() string   { return strings.Join(l, "\n") }
func (l lines) Lines() []string { return l }

func TestVersionAndHelp(t *testing.T) {
	code, stdout, _ := run(newRootCmd(), "version")
	if code != exitOK || !strings.HasPrefix(stdout, "tidegate ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("version: code %d, %q", code, stdout)
	}
	code, stdout, stderr := run(newRootCmd(), "--help")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "keygen") {
		t.Errorf("help: code %d, %q %q", code, stdout, stderr)
	}
}

func TestKeygen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	code, stdout, stderr := run(newRootCmd(), "keygen", path)
	if code != exitOK || stdout != "" || len(stderr) > 64+len(path) {
		t.Errorf("keygen: code %d, %q %q", code, stdout, stderr)
	}
	code, _, stderr = run(newRootCmd(), "keygen", path)
	if code != exitError || !strings.Contains(stderr, "not overwritten") {
		t.Errorf("keygen again: code %d, %q", code, stderr)
	}
}
