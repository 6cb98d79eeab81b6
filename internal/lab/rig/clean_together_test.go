// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Concurrent cleanups, as of packages tested in parallel, remove what a dead owner left, including a namespace that is
// mounted twice, and none of them fails.
func TestCleanTogether(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	// Never the machine's own namespace: Clean kills the processes in namespaces of dead owners.
	ns, err := NewNamespace("clean")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var paths []string
	for i := range 40 {
		path := filepath.Join(nsDir, fmt.Sprintf("%s%d-1-left%d", nsPrefix, dead.Process.Pid, i))
		if err := os.WriteFile(path, nil, 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(filepath.Join(nsDir, ns.Name), path, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if err := unix.Mount(filepath.Join(nsDir, ns.Name), paths[0], "", unix.MS_BIND, ""); err != nil { // one on another
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := Clean(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, path := range paths {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// A name of a dead owner that leads to this machine's own namespace ends no process.
func TestCleanSparesOwnNamespace(t *testing.T) {
	for _, path := range []string{"/proc/self/ns/net", "/proc/thread-self/ns/net", "/nowhere"} {
		if !isOurs(path) {
			t.Errorf("processes in %s would be killed", path)
		}
	}
}
