// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tidegateEnv is the environment variable with the path of the tidegate binary to measure.
const tidegateEnv = "TIDEGATE"

// FindTidegate finds the binary to measure: in the environment variable,
// beside this program, or on PATH.
func FindTidegate() (string, error) {
	if at := os.Getenv(tidegateEnv); at != "" {
		if _, err := os.Stat(at); err != nil {
			return "", fmt.Errorf("%s: %w", tidegateEnv, err)
		}
		return at, nil
	}
	if self, err := os.Executable(); err == nil {
		at := filepath.Join(filepath.Dir(self), "tidegate")
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	if at, err := exec.LookPath("tidegate"); err == nil {
		return at, nil
	}
	return "", fmt.Errorf("tidegate is neither beside tidegate-lab nor on PATH: build it with `make build`, or set %s", tidegateEnv)
}
