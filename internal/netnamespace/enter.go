// SPDX-License-Identifier: Apache-2.0

// Package netnamespace moves this process into another network namespace, such as a container's or a pod's, whose
// files stay this machine's. It must not know what the process does there.
package netnamespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// entered marks a process that Enter has started, and names the namespace.
const entered = "TIDEGATE_ENTERED_NETNS"

// kept are the file systems below /sys that do not belong to a network namespace.
var kept = []string{"/sys/fs/bpf", "/sys/fs/cgroup", "/sys/kernel/tracing", "/sys/kernel/debug", "/sys/kernel/security"}

// Path returns the file of a namespace: which is a name given by `ip netns`, the PID of a process in the namespace,
// or an absolute path.
func Path(which string) (string, error) {
	switch pid, err := strconv.Atoi(which); {
	case filepath.IsAbs(which):
		return filepath.Clean(which), nil
	case err == nil && pid > 0:
		return filepath.Join("/proc", which, "ns/net"), nil
	case which != "" && which == filepath.Base(which) && which != "." && which != "..":
		return filepath.Join("/run/netns", which), nil
	}
	return "", fmt.Errorf("network namespace %q: use a name of `ip netns list`, a process ID, or the absolute path of a namespace's file", which)
}

// Enter replaces this process by itself, with the same arguments, in the network namespace which (see Path): every
// thread is there from the start. It returns nil once that has happened, and at once if which is empty. /sys shows the namespace's
// devices, in a mount namespace of the process's own; pins and control groups are this machine's.
func Enter(which string) error {
	if which == "" {
		return nil
	}
	if os.Getenv(entered) == which {
		return os.Unsetenv(entered) // not for commands that this process runs
	}
	path, err := Path(which)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // never unlocked: the thread is replaced by exec, or must not run other goroutines
	if err := enter(path); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: it takes root, or CAP_SYS_ADMIN beside the capabilities that tidegate needs anyway", err)
		}
		return fmt.Errorf("network namespace %s: %w", which, err)
	}
	return fmt.Errorf("start again in network namespace %s: %w", which,
		unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), entered+"="+which)))
}

// enter moves the calling thread.
func enter(path string) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s does not exist: is the container running?", path)
	case err != nil:
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s is not a network namespace", path)
	} else if err != nil {
		return os.NewSyscallError("setns", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return &os.PathError{Op: "mount --make-rslave", Path: "/", Err: err}
	}
	return remountSys()
}

// remountSys mounts the sysfs of the calling thread's network namespace, with what is kept.
func remountSys() (err error) {
	trees := map[string]int{}
	defer func() {
		for _, fd := range trees {
			unix.Close(fd)
		}
	}()
	for _, at := range kept {
		fd, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return &os.PathError{Op: "open_tree", Path: at, Err: err}
		}
		trees[at] = fd
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &os.PathError{Op: "mount sysfs", Path: "/sys", Err: err}
	}
	for at, fd := range trees {
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: at, Err: err}
		}
	}
	return nil
}
