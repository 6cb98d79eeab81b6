// SPDX-License-Identifier: Apache-2.0

// Package cli is the command-line behaviour of both programs: exit codes, one line for each error
// on stderr, JSON on stdout. It must not depend on any subcommand.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"tidegate/internal/version"
)

// Exit codes of every subcommand.
const (
	ExitOK    = 0
	ExitError = 1 // the command ran and failed
	ExitUsage = 2 // the command line itself was wrong; nothing was done
)

// ErrSilent fails a command that has already reported on stdout what is wrong.
var ErrSilent = errors.New("failed")

// usageError marks an error of the command line that only the command itself can see.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// UsageErrorf refuses a command line.
func UsageErrorf(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}

// Execute runs the command line args and returns the exit code. Whatever fails
// before a command's own RunE has begun is a usage error.
func Execute(root *cobra.Command, args []string, stderr io.Writer) int {
	started := false
	markStart(root, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return ExitOK
	}
	var usage *usageError
	if !started || errors.As(err, &usage) {
		fmt.Fprintf(stderr, "%s: %s; see `%s --help`\n", root.Name(), OneLine(err.Error()), cmd.CommandPath())
		return ExitUsage
	}
	if !errors.Is(err, ErrSilent) {
		printError(stderr, root.Name(), err)
	}
	return ExitError
}

// markStart wraps the RunE of every command so that started is set once the
// command line has been accepted.
func markStart(cmd *cobra.Command, started *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return run(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, started)
	}
}

// printError writes one line for each error. A configuration with several
// mistakes is a list of errors; everything else is one line.
func printError(w io.Writer, program string, err error) {
	var list interface{ Lines() []string }
	if errors.As(err, &list) {
		for _, line := range list.Lines() {
			fmt.Fprintf(w, "%s: %s\n", program, OneLine(line))
		}
		return
	}
	fmt.Fprintf(w, "%s: %s\n", program, OneLine(err.Error()))
}

// OneLine keeps the promise that one error is one line.
func OneLine(s string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, "; ")
}

// WriteJSON writes one indented JSON object.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// VersionCmd prints the version of a program's build.
func VersionCmd(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line := fmt.Sprintf("%s %s %s %s/%s", program, version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if c := version.Commit(); c != "" {
				line += " " + c
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
}
