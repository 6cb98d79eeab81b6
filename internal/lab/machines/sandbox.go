// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/lab/rig"
)

// sandbox is where real programs run: in the server's network, with /run, /etc and /var of its own that
// vanish with it, and with processes that end when its first process does, even if this process is killed.
type sandbox struct {
	m    *Machine
	init *rig.Process
	pid  int // of the first process, in this machine's numbering
}

// sandboxScript sets up the sandbox's folders: empty ones and copies.
const sandboxScript = `
mount --make-rprivate /
mount -t proc proc /proc
keep=$(mktemp -d)
mount -t tmpfs tmpfs $keep
for d in /etc/ufw /etc/default /etc/firewalld /etc/fail2ban /etc/libvirt /var/lib/libvirt /etc/dbus-1 /lib/ufw; do
	if [ -d $d ]; then mkdir -p $keep$d; cp -a $d/. $keep$d/; mount --bind $keep$d $d; fi
done
mkdir $keep/lab
mount --bind /run/tidegate-lab $keep/lab
for d in /run /var/log /var/cache/libvirt /var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/fail2ban /etc/docker /etc/containers/networks; do
	if [ -d $d ]; then mount -t tmpfs tmpfs $d; fi
done
mkdir /run/tidegate-lab /var/log/libvirt /var/log/docker
mount --bind $keep/lab /run/tidegate-lab
umount $keep/lab $keep
rmdir $keep
if grep -q ' /sys/fs/cgroup/unified ' /proc/mounts; then umount /sys/fs/cgroup/unified; fi # crun refuses the mixture
mkdir -p /run/dbus /run/lock /run/netns
echo up
while :; do sleep 3600; done`

// openSandbox makes the machine's sandbox; it is closed with the machine.
func (m *Machine) openSandbox() (*sandbox, error) {
	up := rig.NewLineWaiter("up")
	p, err := rig.StartProcess(m.Server, -1, nil, up, "unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", sandboxScript)
	if err != nil {
		return nil, err
	}
	b := &sandbox{m: m, init: p}
	m.ends = append(m.ends, func() error {
		p.Stop(5 * time.Second)
		return removeGroups(m.Instance)
	})
	select {
	case <-up.Seen:
	case <-p.Exited:
		return nil, fmt.Errorf("sandbox: %w", errors.Join(p.Failure(), errors.New("ended before it was up")))
	case <-m.ctx.Done():
		return nil, m.ctx.Err()
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	b.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
	return b, err
}

// sh runs lines of shell in the sandbox; processes that they leave running stay.
func (b *sandbox) sh(script string, args ...any) error {
	_, err := run(b.m.ctx, b.m.Server, nil, "nsenter", "--target", strconv.Itoa(b.pid), "--mount", "--pid", "/bin/sh", "-ec",
		"await() { n=0; until \"$@\" >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 200 ] || { echo \"timed out: $*\" >&2; \"$@\"; return 1; }; sleep 0.1; done; }\n"+
			fmt.Sprintf(script, args...))
	return err
}

// inSandbox is a machine with a web server and programs in its sandbox.
func inSandbox(script string) func(*Machine) error {
	return func(m *Machine) error {
		b, err := m.openSandbox()
		if err != nil {
			return err
		}
		if err := b.sh("%s", script); err != nil {
			return err
		}
		return m.Serve(m.Server, "")
	}
}

// removeGroups removes the control groups that container engines made under our name, once
// the processes in them have ended.
func removeGroups(name string) (err error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = tryRemoveGroups(name); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func tryRemoveGroups(name string) error {
	errs := []error{rig.RemoveGroup(filepath.Join("/sys/fs/cgroup", name))}
	tops, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", name))
	for _, top := range tops {
		errs = append(errs, rig.RemoveGroup(top))
	}
	return errors.Join(errs...)
}

// image makes the root of a container that serves as the lab's own server does: busybox and one script.
func (m *Machine) image() (dir string, err error) {
	dir = filepath.Join(m.dir, "image")
	const script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n" + hello + "%s\\n' \"$REMOTE_ADDR\"\n"
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return "", err
	}
	for _, d := range []string{"bin", "www/cgi-bin", "etc", "proc", "sys", "dev", "tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	_ = os.Symlink("busybox", filepath.Join(dir, "bin/sh"))
	return dir, errors.Join(os.WriteFile(filepath.Join(dir, "bin/busybox"), busybox, 0o755),
		os.WriteFile(filepath.Join(dir, "www/cgi-bin/whoami"), []byte(script), 0o755))
}
