// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Workplace is what the parts of one experiment share on this machine: the owner, a
// folder, the programs and the processors.
type Workplace struct {
	Owner    Owner
	Dir      string
	Self     string // this program, which is server and load generator, too
	Pin      Pinning
	Progress func(format string, args ...any)

	exe string // path of tidegate, if given: see StartTidegate
}

// NewWorkplace removes what dead labs left behind and makes a workplace. exe is the tidegate
// binary, empty for the one that FindTidegate finds; progress may be nil. The caller closes it.
func NewWorkplace(exe string, progress func(string, ...any)) (*Workplace, error) {
	if progress == nil {
		progress = func(string, ...any) {}
	}
	w := &Workplace{exe: exe, Progress: progress}
	removed, err := Clean() // which may give this process its processors back
	if err != nil {
		return nil, fmt.Errorf("clean up after dead labs: %w", err)
	}
	for _, name := range removed {
		progress("removed %s, left behind by a lab that was killed", name)
	}
	w.Pin = choosePinning(allowedCPUs())
	if w.Owner, err = Self(); err != nil {
		return nil, err
	}
	if w.Self, err = os.Executable(); err != nil {
		return nil, err
	}
	w.Dir = filepath.Join(LabDir, w.Owner.String())
	return w, os.MkdirAll(w.Dir, 0o700)
}

// Close removes the folder.
func (w *Workplace) Close() error { return os.RemoveAll(w.Dir) }

// StartTidegate starts the program under measurement. It is looked up here: a workplace
// that never starts it needs no binary.
func (w *Workplace) StartTidegate(n *Namespace, stdout io.Writer, args ...string) (_ *Process, err error) {
	if w.exe == "" {
		if w.exe, err = FindTidegate(); err != nil {
			return nil, err
		}
	}
	return StartProcess(n, -1, nil, stdout, append([]string{w.exe}, args...)...)
}
