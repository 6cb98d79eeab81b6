// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelRelease is what uname says.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// CPUModel is the first processor's, as the kernel names it.
func CPUModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
