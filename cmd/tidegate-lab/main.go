// SPDX-License-Identifier: Apache-2.0

// Command tidegate-lab floods hosts made of network namespaces, and measures what the gates do
// about it and what they cost. It is the only program that sends attack traffic, and is not part of
// tidegate, the program that runs on production machines.
//
// Each subcommand is in a file of its own and stays thin: flags in, one call
// into internal/, output. Results go to stdout, everything else to stderr.
package main

import (
	"os"

	"tidegate/internal/cli"
	"tidegate/internal/lab/rig"
)

func main() {
	code := cli.Execute(newRootCmd(), os.Args[1:], os.Stderr)
	rig.CleanOwn()
	os.Exit(code)
}
