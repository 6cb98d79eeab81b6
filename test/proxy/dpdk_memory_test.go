// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
)

// The tables' pages are faulted in before the first frame: a page fault costs a packet
// a millisecond, in which a flood fills the rings. New connections are spread over the whole
// table, so that each of the first hundreds would fault.
func TestDPDKTouchesNoNewMemory(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	const connections, most = 200, 40
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie"))
	if err := w.ping(false); err != nil { // code and counters are touched once
		t.Fatal(err)
	}
	before := w.pageFaults()
	for range connections {
		if err := w.ping(false); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.pageFaults() - before; n > most {
		t.Errorf("the forwarding thread waited for %d new pages during %d connections, want at most %d", n, connections, most)
	}
}

// pageFaults are those of the forwarding thread: the first of tidegate-dpdk.
func (w *world) pageFaults() int {
	w.t.Helper()
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, exe := range programs {
		path, err := os.Readlink(exe)
		if err != nil || filepath.Base(path) != "tidegate-dpdk" {
			continue
		}
		dir := filepath.Dir(exe)
		stat, err := os.ReadFile(fmt.Sprintf("%s/task/%s/stat", dir, filepath.Base(dir)))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // proc(5): from "state" on
		if fields[1] != strconv.Itoa(w.box.Cmd.Process.Pid) {
			continue
		}
		faults, err := strconv.Atoi(fields[7])
		if err != nil {
			w.t.Fatal(err)
		}
		return faults
	}
	w.t.Fatal("tidegate-dpdk is not there")
	return 0
}
