// SPDX-License-Identifier: Apache-2.0

package load

import (
	"os"
	"testing"
)

// needRoot skips for plain users; on a CI machine a missing root is a failure.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this test needs root, and CI must run it as root")
	}
	t.Skip("needs root for network namespaces")
}
