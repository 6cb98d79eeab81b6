// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"fmt"
	"io"
	"os"
)

// Children are this package's hidden subcommands of tidegate-lab.
var Children = map[string]func(args []string, stdout io.Writer) error{serverChild: RunServerChild}

// IsChild reports whether the command line is one of the hidden children, and runs it. A test binary calls it first.
func IsChild(args []string) (code int, is bool) {
	if len(args) < 2 || Children[args[1]] == nil {
		return 0, false
	}
	if err := Children[args[1]](args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}
