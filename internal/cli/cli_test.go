// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run executes one command line and returns its exit code, stdout and stderr.
func run(root *cobra.Command, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := Execute(root, args, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestRunErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"plain", errors.New("no luck"), ExitError, "tidegate: no luck\n"},
		{"several lines become one", errors.New("no\n  luck\n"), ExitError, "tidegate: no; luck\n"},
		{"silent", fmt.Errorf("check: %w", ErrSilent), ExitError, ""},
		{"usage found late", UsageErrorf("--rate %d is negative", -1), ExitUsage, "tidegate: --rate -1 is negative; see `tidegate x --help`\n"},
		{"list", lines{"a", "b"}, ExitError, "tidegate: a\ntidegate: b\n"},
	} {
		root := &cobra.Command{Use: "tidegate", SilenceErrors: true, SilenceUsage: true}
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
