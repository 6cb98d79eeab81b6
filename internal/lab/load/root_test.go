// SPDX-License-Identifier: Apache-2.0

package load

import (
	"os"
	"testing"
)

// needRoot skips for unprivileged users; in CI it fails instead.
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
