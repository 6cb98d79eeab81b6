// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// One process at a time owns an instance: it holds an open-file-description lock on <state
// dir>/<instance>.lock. Unlike flock(2), such a lock can be tested without being taken, so that `status`
// never blocks a start.

func lockPath(dir, instance string) string { return filepath.Join(dir, instance+".lock") }

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// thisRun tells this process from every other one that has owned an instance; in containers, each may have process ID 1.
var thisRun = fmt.Sprintf("%016x", rand.Uint64())

// errRunning: another process owns the instance.
var errRunning = errors.New("already running")

// Lock takes the lock of an instance, or fails with its owner; call the result to release it.
func Lock(stateDir, instance string) (unlock func(), err error) {
	f, err := lock(stateDir, instance)
	if err != nil {
		return nil, err
	}
	_ = forgetReload(stateDir, instance) // of a process that was killed
	return func() {
		_ = forgetReload(stateDir, instance)
		giveBack(f)
	}, nil
}

func lock(dir, instance string) (*os.File, error) {
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
			return nil, fmt.Errorf("%w: instance %q (%s is locked); stop it, or set another `instance:`", errRunning, instance, path)
		}
		// The previous owner may have removed the file between open and lock: then this lock
		// protects nothing.
		if isFile(f, path) {
			if _, err := f.WriteAt(fmt.Appendf(nil, "%-10d %s\n", os.Getpid(), thisRun), 0); err != nil { // for `tidegate off` and `tidegate status`
				f.Close()
				return nil, err
			}
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

// giveBack removes the file while it is still locked, then releases it.
func giveBack(f *os.File) {
	_ = os.Remove(f.Name())
	f.Close()
}

// ownerOf finds the process that owns an instance: the file names it, and it must have the
// file open. The result is a pidfd, safe against reuse of the pid; close it.
func ownerOf(dir, instance string) (pidfd int, err error) {
	path := lockPath(dir, instance)
	text, err := os.ReadFile(path)
	if err != nil {
		return -1, err
	}
	pid, err := strconv.Atoi(firstWord(text))
	if err != nil {
		s, stateErr := readState(StatePath(dir, instance)) // a version that wrote no pid
		if stateErr != nil {
			return -1, fmt.Errorf("%s does not name its owner", path)
		}
		pid = s.PID
	}
	if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		return -1, fmt.Errorf("process %d, which %s names: %w", pid, path, err)
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == path {
			return pidfd, nil
		}
	}
	unix.Close(pidfd)
	return -1, fmt.Errorf("process %d, which %s names, does not have it open: it runs in another PID namespace; stop it there first", pid, path)
}

// firstWord of a lock file is its owner's process ID; the second is its owner's thisRun.
func firstWord(text []byte) string {
	word, _, _ := strings.Cut(string(text), " ")
	return strings.TrimSpace(word)
}

// Running reports whether a process owns the instance.
func Running(dir, instance string) (bool, error) {
	running, _, err := RunningFrom(dir, instance, "")
	return running, err
}

// RunningFrom is Running, and reports whether that process is still starting: the state file, whose `run` this is, and the packet path
// are those of a process before it, or of none.
func RunningFrom(dir, instance, run string) (running, starting bool, err error) {
	f, err := os.Open(lockPath(dir, instance))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	held := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, held); err != nil {
		return false, false, err
	}
	if held.Type == unix.F_UNLCK {
		return false, false, nil
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return false, false, err
	}
	_, owner, _ := strings.Cut(string(text), " ")
	return true, strings.TrimSpace(owner) != run, nil
}
