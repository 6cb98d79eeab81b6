// SPDX-License-Identifier: Apache-2.0

// Command tidegate protects the TCP services of this machine from SYN floods.
//
// Every subcommand stands in its own file and stays thin: flags in, one call
// into internal/, output. Results go to stdout, everything else to stderr.
package main

//go:generate go run -tags docs . generate-cli ../../docs/cli.md

import (
	"os"

	"tidegate/internal/cli"
)

func main() {
	os.Exit(cli.Execute(newRootCmd(), os.Args[1:], os.Stderr))
}
