// SPDX-License-Identifier: Apache-2.0

// Package p4src holds the P4 programs, so that the lab can compile them wherever the
// binary is.
package p4src

import "embed"

// Files are the sources, by their paths below p4/.
//
//go:embed shared v1model
var Files embed.FS
