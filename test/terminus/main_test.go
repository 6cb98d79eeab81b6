// SPDX-License-Identifier: Apache-2.0

// Package terminus tests the roles of Terminus as users have them: the real binary,
// several network stacks, and real detectors.
package terminus

import (
	"os"
	"path/filepath"
	"testing"

	"tidegate/test/world"
)

// binary is the tidegate of this tree.
var binary string

func TestMain(m *testing.M) { os.Exit(world.Main(m, &binary)) }

var needRoot = world.NeedRoot

// needTool fails if a tool is missing that `make test` installs.
func needTool(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/bin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("%s is not installed; tools/deps.sh test installs the package %s", name, pkg)
	return ""
}
