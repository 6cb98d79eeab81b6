// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// envFreshMachine says that this process is TestNamesStayVisible's child.
const envFreshMachine = "TIDEGATE_TEST_FRESH_MACHINE"

// On a machine whose first `ip netns add` comes after our namespace, that can still be removed. The machine is a mount namespace with
// an empty /run.
func TestNamesStayVisible(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	if os.Getenv(envFreshMachine) == "" {
		child := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `mount -t tmpfs none /run && exec "$0" -test.run '^TestNamesStayVisible$' -test.v`, os.Args[0])
		child.Env = append(os.Environ(), envFreshMachine+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	n, err := NewNamespace("seen")
	if err != nil {
		t.Fatal(err)
	}
	other := n.Name + "-other"
	if out, err := exec.Command("ip", "netns", "add", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(nsDir, n.Name)); !os.IsNotExist(err) {
		t.Errorf("its name is still there: %v", err)
	}
	if out, err := exec.Command("ip", "netns", "delete", other).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
