package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tidegate/internal/version"
)

// Exit codes of every subcommand.
const (
	exitOK    = 0
	exitError = 1 // the command ran and failed
	exitUsage = 2 // the command line itself was wrong; nothing was done
)

// errSilent fails a command that has already said on stdout what is wrong.
var errSilent = errors.New("failed")

// usageError marks an error of the command line that only the command itself can see.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usageErrorf(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidegate",
		Short:         "Stops SYN floods before they reach the TCP stack",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		newBenchCmd(),
		newBindingCmd(),
		newCheckCmd(),
		newFilterCmd(),
		newKeygenCmd(),
		newLabCmd(),
		newOffCmd(),
		newP4Cmd(),
		newRunCmd(),
		newStatusCmd(),
		newVersionCmd(),
	)
	return root
}

// execute runs the command line args and returns the exit code. Whatever fails
// before a command's own RunE has begun is a usage error.
func execute(root *cobra.Command, args []string, stderr io.Writer) int {
	started := false
	markStart(root, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var usage *usageError
	if !started || errors.As(err, &usage) {
		fmt.Fprintf(stderr, "tidegate: %s; see `%s --help`\n", oneLine(err.Error()), cmd.CommandPath())
		return exitUsage
	}
	if !errors.Is(err, errSilent) {
		printError(stderr, err)
	}
	return exitError
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
func printError(w io.Writer, err error) {
	var list interface{ Lines() []string }
	if errors.As(err, &list) {
		for _, line := range list.Lines() {
			fmt.Fprintf(w, "tidegate: %s\n", oneLine(line))
		}
		return
	}
	fmt.Fprintf(w, "tidegate: %s\n", oneLine(err.Error()))
}

// oneLine keeps the promise that one error is one line.
func oneLine(s string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, "; ")
}
