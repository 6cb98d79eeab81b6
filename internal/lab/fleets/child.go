// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"fmt"
	"os"
)

// IsChild reports whether the command line is one of this package's hidden children, and runs it. A test binary calls it first.
func IsChild(args []string) (code int, is bool) {
	if len(args) < 2 {
		return 0, false
	}
	run, is := Children[args[1]]
	if !is {
		return 0, false
	}
	if err := run(args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// Children are the hidden subcommands of tidegate-lab that run inside a namespace.
var Children = map[string]func(args []string) error{serverChild: RunServerChild, routerChild: RunRouterChild}
