// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tidegate/internal/keys"
)

// effectiveCaps returns the effective capabilities of this thread as a bit set.
func effectiveCaps() uint64 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

// privilegeCheck requires what loading and attaching needs. CAP_SYS_ADMIN implies
// CAP_BPF and CAP_PERFMON, as in the kernel.
func privilegeCheck(caps uint64) (Check, bool) {
	has := func(bit int) bool { return caps&(1<<bit) != 0 }
	var missing []string
	if !has(unix.CAP_NET_ADMIN) {
		missing = append(missing, "CAP_NET_ADMIN")
	}
	if !has(unix.CAP_SYS_ADMIN) {
		if !has(unix.CAP_BPF) {
			missing = append(missing, "CAP_BPF")
		}
		if !has(unix.CAP_PERFMON) {
			missing = append(missing, "CAP_PERFMON")
		}
	}
	if len(missing) == 0 {
		return Check{Name: "privileges", Status: OK, Found: "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN"}, true
	}
	return Check{Name: "privileges", Status: Fail, Found: "without " + strings.Join(missing, ", "),
		Means: "programs can be neither loaded nor attached", Fix: "run as root"}, false
}

const (
	bpffsPath  = "/sys/fs/bpf"
	bpffsMagic = unix.BPF_FS_MAGIC

	// hiddenSys: `ip netns exec` mounts a new /sys without the mounts inside the old one.
	hiddenSys = "; within a network namespace enter with `nsenter --net=FILE`, as `ip netns exec` hides it"
)

func mountChecks() []Check {
	known, _ := os.ReadFile("/proc/filesystems")
	var st unix.Statfs_t
	mounted := unix.Statfs(bpffsPath, &st) == nil && st.Type == bpffsMagic
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return []Check{
		bpffsCheck(mounted, hasFilesystem(string(known), "bpf")),
		cgroupCheck(cgroup2Mount(string(mounts)), hasFilesystem(string(known), "cgroup2")),
	}
}

func bpffsCheck(mounted, mountable bool) Check {
	c := Check{Name: "bpffs", Status: OK, Found: bpffsPath}
	if mounted {
		return c
	}
	c.Status, c.Found = Warn, "not mounted at "+bpffsPath
	c.Means, c.Fix = "programs cannot be pinned and so cannot outlive the daemon", "run `mount -t bpf bpf "+bpffsPath+"`"+hiddenSys
	if !mountable {
		c.Status, c.Found, c.Fix = Fail, "not in this kernel", "run a kernel built with CONFIG_BPF_SYSCALL"
	}
	return c
}

func cgroupCheck(path string, mountable bool) Check {
	c := Check{Name: "cgroup2", Status: OK, Found: path}
	if path != "" {
		return c
	}
	c.Status, c.Found = Fail, "not mounted"
	c.Means = "the program that remembers closed connections has no place: reuse of ports in TIME-WAIT would stall"
	c.Fix = "run `mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified`" + hiddenSys
	if !mountable {
		c.Found, c.Fix = "not in this kernel", "run a kernel built with CONFIG_CGROUPS and CONFIG_CGROUP_BPF"
	}
	return c
}

// cgroup2Mount finds the first cgroup2 mount in the text of /proc/self/mountinfo.
func cgroup2Mount(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		if ok && len(fields) > 4 && strings.HasPrefix(right, "cgroup2 ") {
			return fields[4]
		}
	}
	return ""
}

func hasFilesystem(procFilesystems, name string) bool {
	s := bufio.NewScanner(strings.NewReader(procFilesystems))
	for s.Scan() {
		if slices.Contains(strings.Fields(s.Text()), name) {
			return true
		}
	}
	return false
}

// sysctls of this network namespace that limit what a connection can negotiate.
var sysctls = []struct {
	name    string
	judge   func(v int) Status
	means   string
	setting string // the value that fixes it
}{
	{"net.ipv4.tcp_syncookies", nonZeroOr(Fail), "the kernel adopts no connection", "1"},
	{"net.ipv4.tcp_window_scaling", nonZeroOr(Warn), "connections are limited to windows of 64 KiB", "1"},
	{"net.ipv4.tcp_sack", nonZeroOr(Warn), "connections recover slowly from loss", "1"},
	{"net.ipv4.tcp_timestamps", nonZeroOr(Warn), "cookies have 23 bits of MAC and not more than 50", "1"},
	{"net.ipv4.tcp_ecn", nonZeroOr(Warn), "clients that ask for ECN do not get it", "2"},
	{"net.core.bpf_jit_enable", nonZeroOr(Warn), "programs are interpreted and several times slower", "1"},
}

func nonZeroOr(bad Status) func(int) Status {
	return func(v int) Status {
		if v == 0 {
			return bad
		}
		return OK
	}
}

func sysctlChecks() []Check {
	var list []Check
	for i, s := range sysctls {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if err != nil && s.name == "net.core.bpf_jit_enable" {
			continue // only the first network namespace has it
		}
		list = append(list, sysctlCheck(i, strings.TrimSpace(string(text)), err))
	}
	return list
}

func sysctlCheck(i int, text string, err error) Check {
	s := sysctls[i]
	c := Check{Name: s.name, Status: OK, Found: text}
	v, convErr := strconv.Atoi(text)
	if err != nil || convErr != nil {
		c.Status, c.Found = Warn, "cannot be read"
		c.Means, c.Fix = "if it is 0: "+s.means, "mount /proc"
		return c
	}
	if c.Status = s.judge(v); c.Status != OK {
		c.Means, c.Fix = s.means, fmt.Sprintf("run `sysctl -w %s=%s`", s.name, s.setting)
	}
	return c
}

func secretCheck(path string) Check {
	s, err := keys.LoadSecret(path)
	if err != nil {
		found, fix, _ := strings.Cut(err.Error(), "; ")
		return Check{Name: "secret file", Status: Fail, Found: found, Means: "`tidegate run` refuses to start",
			Fix: cmp.Or(fix, "see that this file can be read")}
	}
	s.Zero()
	return Check{Name: "secret file", Status: OK, Found: path}
}
