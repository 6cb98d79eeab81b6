// SPDX-License-Identifier: Apache-2.0

package reloadtest

import (
	"os"
	"testing"

	harness "tidegate/test/world"
)

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &tidegate)) }
