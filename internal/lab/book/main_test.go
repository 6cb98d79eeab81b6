// SPDX-License-Identifier: Apache-2.0

package book

import (
	"os"
	"testing"

	"tidegate/internal/lab/backlog"
	"tidegate/internal/lab/load"
	"tidegate/test/world"
)

// tidegate is the program under test.
var tidegate string

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	if code, is := backlog.IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(world.Main(m, &tidegate))
}
