// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// softirqdCPU is the CPU time that the kernel thread ksoftirqd/<cpu> has used.
// Packets that a sender leaves to it are not in the sender's own CPU time. It is
// zero where kernel threads are invisible (another pid namespace), and then
// so is its difference.
func softirqdCPU(cpu int) time.Duration {
	dir := softirqdDir(cpu)
	if dir == "" {
		return 0
	}
	// schedstat: nanoseconds on the CPU, nanoseconds waiting, time slices.
	data, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) == 0 {
		return 0
	}
	ns, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

func softirqdDir(cpu int) string {
	want := fmt.Sprintf("ksoftirqd/%d\n", cpu)
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range comms {
		if name, err := os.ReadFile(path); err == nil && string(name) == want {
			return filepath.Dir(path)
		}
	}
	return ""
}
