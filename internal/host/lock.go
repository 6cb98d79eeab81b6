package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// One process at a time owns an instance: it holds an open-file-description lock
// on <state dir>/<instance>.lock. Unlike flock(2), such a lock can be asked for
// without being taken, so that `status` never gets in the way of a start.

func lockPath(dir, instance string) string { return filepath.Join(dir, instance+".lock") }

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// lockInstance takes the lock, or says who has it.
func lockInstance(dir, instance string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := lockPath(dir, instance)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
			f.Close()
			return nil, fmt.Errorf("instance %q is already running (%s is locked); stop it, or set another `instance:`", instance, path)
		}
		// The owner before us may have removed the file between open and lock:
		// then this lock keeps nobody out.
		if isFile(f, path) {
			return f, nil
		}
		f.Close()
	}
}

func isFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}

// unlockInstance removes the file while it is still locked, then lets go.
func unlockInstance(f *os.File) {
	_ = os.Remove(f.Name())
	f.Close()
}

// instanceLocked says whether a process owns the instance.
func instanceLocked(dir, instance string) (bool, error) {
	f, err := os.Open(lockPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}
