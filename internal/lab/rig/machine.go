// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelRelease is the kernel's release as uname reports it.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// CPUModel is the model name of the first processor, from /proc/cpuinfo.
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
