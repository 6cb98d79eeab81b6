// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	RunDir     = "/run/tidegate"
	LabDir     = "/run/tidegate-lab"
	InstPrefix = "lab-"
)

// Clean removes what labs whose process is dead left behind: namespaces
// (and with them interfaces and attached programs), processes still inside
// them, work directories, pins and state files of instances, and control groups. It also
// restores the affinity of threads that they moved. It returns the names of what it removed.
func Clean() ([]string, error) {
	lock, err := lockNamespaces()
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	var removed []string
	var errs []error
	note := func(name string, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		removed = append(removed, name)
	}
	for _, name := range namesOfDead(nsDir, nsPrefix) {
		killInside(filepath.Join(nsDir, name))
		note(name, removeNamespace(name))
	}
	for _, name := range namesOfDead(LabDir, "") {
		path := filepath.Join(LabDir, name)
		note(path, errors.Join(putBack(filepath.Join(path, movedFile)), os.RemoveAll(path)))
	}
	for _, mount := range BpfMounts() {
		dir := filepath.Join(mount, "tidegate")
		for _, name := range namesOfDead(dir, InstPrefix) {
			path := filepath.Join(dir, name)
			note(path, os.RemoveAll(path))
		}
	}
	for _, name := range namesOfDead(RunDir, InstPrefix) {
		path := filepath.Join(RunDir, name)
		note(path, os.RemoveAll(path))
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*")
	for _, top := range append(groups, "/sys/fs/cgroup") {
		for _, name := range namesOfDead(top, InstPrefix) {
			path := filepath.Join(top, name)
			note(path, RemoveGroup(path))
		}
	}
	return removed, errors.Join(errs...)
}

// lockNamespaces serializes processes that clean up: between unmounting a namespace and removing its file, another
// one gets EBUSY for the file.
func lockNamespaces() (io.Closer, error) {
	if err := os.MkdirAll(nsDir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.Open(nsDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, fmt.Errorf("lock %s: %w", nsDir, err)
	}
	return dir, nil
}

// RemoveGroup removes a control group that no process is in, with those below it.
func RemoveGroup(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, RemoveGroup(filepath.Join(path, e.Name())))
		}
	}
	return errors.Join(append(errs, os.Remove(path))...)
}

// namesOfDead lists the entries of dir named <prefix><owner>[-role][.suffix]
// whose owner is dead. Names of any other form are not ours.
func namesOfDead(dir, prefix string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		middle, _, _ = strings.Cut(middle, ".")
		o, _, ok := parseOwner(middle)
		if ok && !o.alive() {
			names = append(names, e.Name())
		}
	}
	return names
}

// killInside kills the processes in a dead owner's namespace. Children carry
// Pdeathsig, so there are some only if a child cleared it.
func killInside(nsPath string) {
	if isOurs(nsPath) { // a name of the machine's own namespace: every process is inside
		return
	}
	for _, pid := range PIDsInside(nsPath) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// isOurs reports whether a path is the network namespace of this process or of process 1; true if that cannot be determined.
func isOurs(nsPath string) bool {
	var ns, own, first unix.Stat_t
	if unix.Stat(nsPath, &ns) != nil || unix.Stat("/proc/self/ns/net", &own) != nil || unix.Stat("/proc/1/ns/net", &first) != nil {
		return true
	}
	return ns.Dev == own.Dev && ns.Ino == own.Ino || ns.Dev == first.Dev && ns.Ino == first.Ino
}

// PIDsInside lists the processes whose main thread is in the namespace.
func PIDsInside(nsPath string) []int {
	var ns unix.Stat_t
	if unix.Stat(nsPath, &ns) != nil {
		return nil
	}
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &st) == nil && st.Ino == ns.Ino && st.Dev == ns.Dev {
			pids = append(pids, pid)
		}
	}
	return pids
}

// BpfMounts lists the mounted BPF file systems.
func BpfMounts() []string {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[2] == "bpf" {
			dirs = append(dirs, f[1])
		}
	}
	return dirs
}
