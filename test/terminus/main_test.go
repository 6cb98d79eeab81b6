// SPDX-License-Identifier: Apache-2.0

// Package terminus tests the roles of Terminus as a user has them: the real binary,
// several kernels' worth of network stack, and real detectors.
package terminus

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const root = "../.."

// binary is the tidegate of this tree.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tidegate-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "tidegate")
		if out, err := exec.Command("go", "build", "-o", binary, root+"/cmd/tidegate").CombinedOutput(); err != nil {
			os.Stderr.Write(out)
			return 1
		}
		return m.Run()
	}())
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

// needTool fails where a tool is missing that `make test` installs.
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
