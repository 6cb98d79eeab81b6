// SPDX-License-Identifier: Apache-2.0

package routerstest

import (
	"fmt"
	"os"
	"strings"
)

// noPrivileges checks that the speaker, the child of a gate, has no capability left in any thread.
func (w *world) noPrivileges(gate int) {
	w.t.Helper()
	child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", gate, gate))
	w.must(err)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", gate))
	w.must(err)
	for _, t := range threads { // the thread that started it has it
		more, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", gate, t.Name()))
		if err == nil && len(more) > 0 {
			child = more
		}
	}
	pid := strings.TrimSpace(string(child))
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	w.must(err)
	if string(name) != "tidegate-bgp\n" {
		w.t.Fatalf("the child %s of the gate is %q", pid, name)
	}
	threads, err = os.ReadDir("/proc/" + pid + "/task")
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
