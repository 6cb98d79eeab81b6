// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

const hugePagesDir = "/sys/kernel/mm/hugepages/hugepages-2048kB/"

func hugePages(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(hugePagesDir, file))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reserveHugePages reserves n pages of 2 MiB for this test and mounts their file
// system, and restores both when it ends.
func reserveHugePages(t *testing.T, n int) {
	t.Helper()
	before := hugePages(t, "nr_hugepages")
	set := func(n int) error {
		return os.WriteFile(filepath.Join(hugePagesDir, "nr_hugepages"), fmt.Append(nil, n), 0)
	}
	t.Cleanup(func() {
		if err := set(before); err != nil {
			t.Error(err)
		}
	})
	if err := set(before + n); err != nil {
		t.Fatal(err)
	}
	if got := hugePages(t, "nr_hugepages"); got < before+n {
		t.Skipf("this machine has no %d MiB in one piece each 2 MiB: %d pages of %d", 2*n, got-before, n)
	}
	dir := t.TempDir()
	if err := unix.Mount("tg-huge", dir, "hugetlbfs", 0, "pagesize=2M"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Reserved huge pages are used, and freed.
func TestDPDKHugePages(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	w := newWorld(t, false)
	reserveHugePages(t, 128)
	w.serve(httpOnce)
	free := hugePages(t, "free_hugepages")
	b := w.start(strings.Replace(w.config("cookie"), "memory_mib: 128", "memory_mib: 128, huge_pages: true", 1))
	if used := free - hugePages(t, "free_hugepages"); used < 64 {
		t.Errorf("%d huge pages are used; 128 MiB are 64", used)
	}
	for range 5 {
		w.curl(false)
	}
	if got := w.counters(); got["flow_ready"] < 5 {
		t.Errorf("counters %v", got)
	}
	_ = b.Cmd.Process.Signal(os.Interrupt)
	<-b.Exited
	w.await("the huge pages to be free again", func() bool { return hugePages(t, "free_hugepages") == free })
}
