// SPDX-License-Identifier: Apache-2.0

//go:build docs

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// docs/cli.md is made from the commands themselves (make generate).
func init() {
	more = append(more, func() *cobra.Command {
		return &cobra.Command{Use: "generate-cli FILE", Hidden: true, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				var b strings.Builder
				b.WriteString("<!-- Generated from the commands by cmd/tidegate/clidoc.go; do not edit. -->\n# Commands\n\n" +
					"The same texts as `tidegate COMMAND --help` and the manual pages.\n")
				cmd.Root().InitDefaultHelpFlag()
				describe(&b, cmd.Root())
				return os.WriteFile(args[0], []byte(b.String()), 0o644)
			}}
	})
}

// describe writes a command and those below it.
func describe(b *strings.Builder, c *cobra.Command) {
	if c.HasParent() {
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "\n## %s\n\n```\n%s\n```\n\n%s\n", c.CommandPath(), c.UseLine(), paragraphs(text))
		if flags := c.LocalFlags().FlagUsages() + c.InheritedFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(b, "\n```\n%s```\n", flags)
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", c.Example)
		}
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			describe(b, sub)
		}
	}
}

// paragraphs keeps what is indented as it is, in a fence.
func paragraphs(text string) string {
	var out []string
	fenced := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != fenced {
			out = append(out, "```")
			fenced = indented
		}
		out = append(out, line)
	}
	if fenced {
		out = append(out, "```")
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}
