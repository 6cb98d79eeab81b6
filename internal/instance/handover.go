// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tidegate/internal/plane"
)

// HandOver gives what a process of root leaves of an instance to the owner of the directory that it is in: the packages' units run
// as a user of their own, to whom state directory and pins belong, and go on after a trial, or `run`, by root. A process that is
// killed hands nothing over.
func HandOver(opt Options, instance string) error {
	opt.Complete()
	if os.Geteuid() != 0 {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(opt.StateDir, instance+".*")) // an instance's name has nothing that a pattern gives a meaning
	if err != nil {
		return err
	}
	errs := []error{giveTo(opt.StateDir, files)}
	pins := plane.PinDir(opt.BPFFS, instance)
	var inside []string
	err = filepath.WalkDir(pins, func(path string, _ fs.DirEntry, err error) error {
		inside = append(inside, path)
		return err
	})
	if err == nil {
		errs = append(errs, giveTo(filepath.Dir(pins), inside))
	} else if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// giveTo gives root's files to the owner of a directory, if that is somebody else.
func giveTo(dir string, files []string) error {
	at, err := owner(dir)
	if err != nil || at.Uid == 0 {
		return err
	}
	var errs []error
	for _, path := range files {
		if of, err := owner(path); err != nil || of.Uid != 0 {
			errs = append(errs, gone(err))
			continue
		}
		errs = append(errs, gone(os.Lchown(path, int(at.Uid), int(at.Gid))))
	}
	return errors.Join(errs...)
}

func owner(path string) (*syscall.Stat_t, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return st.Sys().(*syscall.Stat_t), nil
}

// gone forgives that a file is there no more.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
