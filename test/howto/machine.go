// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// limit is how long one fence may take; no fence needs that long.
const limit = 30 * time.Second

// standIns are commands of pages that need more than namespaces.
var standIns = map[string]func(args []string) error{"systemctl": systemctl, "scp": scp}

// machine is a namespace with a shell in it.
type machine struct {
	name string
	ns   *rig.Namespace
	dir  string // scratch
	sh   *rig.Process
	in   *os.File // the shell's stdin
	n    int
}

// prepare gives the shell file systems of its own. /sys shows the namespace's devices.
const prepare = `set -e
mkdir %[3]s/cgroup
mount --rbind /sys/fs/cgroup %[3]s/cgroup
umount -l /sys
mount -t sysfs sysfs /sys
mount --rbind %[3]s/cgroup /sys/fs/cgroup
umount -l %[3]s/cgroup
mount -t bpf bpf /sys/fs/bpf
for d in /etc/tidegate /run/tidegate /var/lib/tidegate /var/log/tidegate; do mkdir -p $d; mount -t tmpfs -o mode=755 tmpfs $d; done
export PATH=%[1]s:$PATH HOWTO_UNITS=%[2]s HOWTO_PEERS=%[4]s
echo $$ >%[4]s/%[5]s
cd %[3]s
set +e
`

// boot starts a machine's shell. bin has the programs; in peers, machines of one network find each other's shells by name.
func boot(t *testing.T, name string, ns *rig.Namespace, bin, peers string) *machine {
	t.Helper()
	m := &machine{name: name, ns: ns, dir: t.TempDir()}
	units, err := filepath.Abs("../../packaging/systemd")
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	m.in = write
	m.sh, err = rig.StartProcess(ns, -1, read, nil, "unshare", "--mount", "--propagation", "private", "bash", "--noprofile", "--norc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		write.Close()
		read.Close()
		for _, pid := range rig.PIDsInside("/run/netns/" + ns.Name) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		m.sh.Stop(5 * time.Second)
	})
	fmt.Fprintf(write, prepare, bin, units, m.dir, peers, name)
	if out, err := m.run("true"); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return m
}

// run passes a script to the shell, which must not fail, and returns its output.
func (m *machine) run(script string) (string, error) {
	m.n++
	base := filepath.Join(m.dir, fmt.Sprint("step", m.n))
	done := base + ".done"
	if err := unix.Mkfifo(done, 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(base, []byte("set -euo pipefail\n"+script), 0o600); err != nil {
		return "", err
	}
	end, err := os.OpenFile(done, os.O_RDWR, 0) // read and write: it does not wait for the shell
	if err != nil {
		return "", err
	}
	defer end.Close()
	fmt.Fprintf(m.in, "(. %[1]s) >%[1]s.out 2>&1 </dev/null; echo $? >%[2]s\n", base, done)
	if err := end.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	code := make([]byte, 8)
	n, err := end.Read(code)
	out, _ := os.ReadFile(base + ".out")
	switch {
	case os.IsTimeout(err):
		return string(out), fmt.Errorf("not done after %v", limit)
	case err != nil && !errors.Is(err, io.EOF):
		return string(out), err
	case strings.TrimSpace(string(code[:n])) != "0":
		return string(out), fmt.Errorf("exit code %s", strings.TrimSpace(string(code[:n])))
	}
	return string(out), nil
}

// write makes a file on the machine.
func (m *machine) write(path, text string) error {
	base := filepath.Join(m.dir, fmt.Sprint("file", m.n))
	if err := os.WriteFile(base, []byte(text), 0o600); err != nil {
		return err
	}
	out, err := m.run(fmt.Sprintf("mkdir -p %q && cp %q %q && chmod 644 %[3]q", filepath.Dir(path), base, path))
	if err != nil {
		return fmt.Errorf("write %s: %w: %s", path, err, out)
	}
	return nil
}

// nginx serves a page on the port of every address of the machine.
func (m *machine) nginx(t *testing.T, port int) {
	t.Helper()
	conf := fmt.Sprintf(`daemon on; pid %[1]s/nginx.pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 512; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
server { listen %[2]d; listen [::]:%[2]d; return 200 "hello from %[3]s\n"; } }
`, m.dir, port, m.name)
	if err := os.WriteFile(filepath.Join(m.dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := m.run("nginx -c " + filepath.Join(m.dir, "nginx.conf")); err != nil {
		t.Fatalf("nginx on %s: %v\n%s", m.name, err, out)
	}
}

// binaries builds the programs that the pages use and returns their folder.
func binaries(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, args := range [][]string{{bin + "/", "../../cmd/tidegate", "../../cmd/tidegate-lab"}, {bin + "/nats-server", "github.com/nats-io/nats-server/v2"}} {
		if out, err := exec.Command("go", append([]string{"build", "-o"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range standIns {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}
