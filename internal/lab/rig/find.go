// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tidegateEnv names the program that the lab measures.
const tidegateEnv = "TIDEGATE"

// FindTidegate looks for the program that the lab measures: where the environment says,
// beside this program, on PATH.
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
