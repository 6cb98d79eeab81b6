// SPDX-License-Identifier: Apache-2.0

package reloadtest

import (
	"os"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

var (
	tidegate string // the binary under test
	onDPDK   = os.Getenv("TIDEGATE_TEST_PLANE") == rig.PlaneDPDK
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, &tidegate, func() error {
		if !onDPDK {
			return nil
		}
		return harness.BuildDPDK()
	}))
}
