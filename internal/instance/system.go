// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SysctlInts reads the first n numbers of a sysctl, whose name has slashes.
func SysctlInts(name string, n int) ([]int, error) {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return nil, fmt.Errorf("sysctl %s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < n {
		return nil, fmt.Errorf("sysctl %s: %q is not %d numbers", name, text, n)
	}
	values := make([]int, n)
	for i := range values {
		if values[i], err = strconv.Atoi(fields[i]); err != nil {
			return nil, fmt.Errorf("sysctl %s: %w", name, err)
		}
	}
	return values, nil
}

// NetnsCookie is the number that identifies this network namespace to BPF programs.
func NetnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("SO_NETNS_COOKIE: %w; Linux 5.14 or newer is needed", err)
	}
	return cookie, nil
}

// EnsureBPFFS mounts a BPF file system where there is none.
func EnsureBPFFS(dir string) error {
	var fs unix.Statfs_t
	for _, at := range []string{dir, filepath.Join(dir, "tidegate")} { // a service unit shows its process only the latter
		if err := unix.Statfs(at, &fs); err == nil && fs.Type == unix.BPF_FS_MAGIC {
			return nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mounting a BPF file system at %s: %w; try `mount -t bpf bpf %s`", dir, err, dir)
	}
	return nil
}

// CgroupRoot is where cgroup v2 is mounted.
func CgroupRoot() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		before, after, ok := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(before)
		if ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) >= 5 {
			return fields[4], nil
		}
	}
	return "", errNoCgroup
}

var errNoCgroup = errors.New("no cgroup v2 file system is mounted; mount one with `mount -t cgroup2 none /sys/fs/cgroup/unified`")
