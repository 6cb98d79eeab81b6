// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"strings"
)

func kernelRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	model, mhz := "unknown", ""
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "cpu MHz":
			mhz = strings.TrimSpace(value)
		}
		if mhz != "" && model != "unknown" {
			break
		}
	}
	return model + ", " + mhz + " MHz"
}
