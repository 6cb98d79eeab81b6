// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// BuiltVar names a folder with programs that test/run has built from this tree at its start, once for all packages: linking one
// takes seconds of processor time, and twenty packages need tidegate. What is not there is built.
const BuiltVar = "TIDEGATE_TEST_BUILT"

// Build puts a program of this repository to a path, `program` being its package, without a C library as `make build` does:
// a container from scratch has no dynamic linker.
func Build(to, program string) error {
	if dir := os.Getenv(BuiltVar); dir != "" {
		err := copyProgram(to, filepath.Join(dir, path.Base(program)))
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	build := exec.Command("go", "build", "-o", to, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", program, err, out)
	}
	return nil
}

// copyProgram copies, where a link would do: a test may write to what it has, and the program of another must not change.
func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
