// SPDX-License-Identifier: Apache-2.0

package split

import (
	"os"
	"testing"

	"tidegate/internal/lab/load"
	"tidegate/test/labtest"
)

// tidegate is the program that is measured.
var tidegate string

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	os.Exit(labtest.Main(m, &tidegate))
}
