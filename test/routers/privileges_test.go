// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// speaker is the process of tidegate-bgp, the child of a gate.
func (w *world) speaker(gate int) (pid int) {
	w.t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", gate))
	w.must(err)
	for _, t := range threads { // the thread that started it has it
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", gate, t.Name())) // it may have ended meanwhile
		for child := range strings.FieldsSeq(string(text)) {
			name, err := os.ReadFile("/proc/" + child + "/comm")
			if err == nil && string(name) == "tidegate-bgp\n" {
				pid, err = strconv.Atoi(child)
				w.must(err)
				return pid
			}
		}
	}
	w.t.Fatalf("the gate %d has no child tidegate-bgp", gate)
	return 0
}

// noPrivileges checks that the speaker has no capability left in any thread.
func (w *world) noPrivileges(gate int) {
	w.t.Helper()
	pid := strconv.Itoa(w.speaker(gate))
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	w.must(err)
	for _, t := range threads {
		status, err := os.ReadFile("/proc/" + pid + "/task/" + t.Name() + "/status")
		w.must(err)
		for _, want := range []string{"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
			if !strings.Contains(string(status), want) {
				w.t.Errorf("thread %s of tidegate-bgp: no %q in %s", t.Name(), want, lines(string(status), "Cap"))
			}
		}
	}
}
