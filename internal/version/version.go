// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of this build. It must import no other package
// of this module, so that every package may import it.
package version

import "runtime/debug"

// Version is stamped by `make build`; a plain `go build` leaves it at "dev".
var Version = "dev"

// Commit returns the revision that the Go tool recorded, or "" if it did not.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
