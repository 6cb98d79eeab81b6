// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/dpdk"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// limit is how long one fence may take that does not say otherwise; none needs that long.
const limit = 30 * time.Second

// standIns are commands of pages that need more than namespaces.
var standIns = map[string]func(args []string) error{"systemctl": systemctl, "scp": scp, "kubectl": kubectl}

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
# What the package makes: the units' user, and what is his.
for f in passwd group; do grep -v ^tidegate: /etc/$f >%[3]s/$f; mount --bind %[3]s/$f /etc/$f; done
echo 'tidegate:x:64471:64471::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
echo 'tidegate:x:64471:' >>/etc/group
mkdir -p /sys/fs/bpf/tidegate
chown tidegate: /run/tidegate /var/lib/tidegate /var/log/tidegate /sys/fs/bpf/tidegate
chown root:tidegate /etc/tidegate
chmod 750 /etc/tidegate
export PATH=%[1]s:$PATH HOWTO_UNITS=%[2]s HOWTO_PEERS=%[4]s
echo $$ >%[4]s/%[5]s
cd %[3]s
%[6]s
set +e
`

// kinds are what machines of a network have in addition. With containers: empty storage, and one image, busybox as a web server; what pages call
// podman is docker on a machine that has that. Docker's control groups are below one named as the machine; podman makes none.
var kinds = map[string]string{
	"podman": storage + ownPodman + image,
	"node":   storage + ownPodman + cluster,
	// A clone of this tree and lwIP's source, side by side.
	"workshop": "ln -s $HOWTO_UNITS/../.. tidegate\nln -s $HOWTO_UNITS/../../build/lwip/lwip-bookworm lwip\n",
	"docker": storage + `export DOCKER_HOST=unix:///run/docker.sock
dockerd --exec-root /run/docker --storage-driver vfs --cgroup-parent /$HOWTO_GROUP >/run/dockerd.log 2>&1 &
until docker version >/dev/null 2>&1; do kill -0 $!; sleep 0.1; done
podman() { docker "$@"; }
` + image,
}

const storage = `umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for d in /run /var/lib/containers /var/lib/docker /var/lib/containerd /etc/containers/networks /etc/docker; do mkdir -p $d; mount -t tmpfs tmpfs $d; done
mkdir /run/lock /run/netns /run/tidegate
chown tidegate: /run/tidegate
`

const ownPodman = `printf '[containers]\ncgroups = "disabled"\n[engine]\ncgroup_manager = "cgroupfs"\n' >/run/containers.conf
export CONTAINERS_CONF=/run/containers.conf STORAGE_DRIVER=vfs
`

// cluster is a node with kube-proxy's rules for a NodePort, 30080, and the image; see cluster.go.
const cluster = `chown root: /run/tidegate /sys/fs/bpf/tidegate # no package is here
ln -s $HOWTO_UNITS/.. packaging
sed 's/tcp \. 80 : goto external/tcp . 30080 : goto external/; s/198\.18\.3\.1 /192.0.2.10 /' $HOWTO_UNITS/../../internal/lab/machines/rules/kube-proxy-nftables-cluster.nft | nft -f -
tar c -C $(dirname $(command -v tidegate)) tidegate | podman import --change 'ENTRYPOINT ["/tidegate"]' - localhost/tidegate:0.1.0
`

const image = `mkdir -p /run/image/bin /run/image/www
cp /bin/busybox /run/image/bin/
echo "hello from the container" >/run/image/www/index.html
tar c -C /run/image . | podman import --change 'CMD ["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"]' - localhost/web:latest
rm -r /run/image
`

// boot starts a machine's shell. bin has the programs; in peers, machines of one network find each other's shells by name;
// first is the beginning of its preparation, if it has one of its own. Such a machine has its own processes, too: those of
// containers are in other network namespaces, and end with the shell.
func boot(t *testing.T, name string, ns *rig.Namespace, bin, peers, first string) *machine {
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
	argv := []string{"unshare", "--mount", "--propagation", "private"}
	if first != "" {
		argv = append(argv, "--pid", "--fork", "--kill-child", "--mount-proc")
	}
	m.sh, err = rig.StartProcess(ns, -1, read, nil, append(argv, "bash", "--noprofile", "--norc")...)
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
		if err := removeGroups(ns.Name); err != nil {
			t.Error(err)
		}
	})
	fmt.Fprintf(write, prepare, bin, units, m.dir, peers, name, "HOWTO_GROUP="+ns.Name+"\n"+first)
	if out, err := m.run("true"); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return m
}

// removeGroups removes the control groups of a machine, once the processes in them have ended.
func removeGroups(name string) (err error) {
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(20 * time.Millisecond) { // no event reports the end of what others started
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
		err = nil
		for _, group := range append(groups, "/sys/fs/cgroup/"+name) {
			err = errors.Join(err, rig.RemoveGroup(group))
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// run passes a script to the shell, which must not fail, and returns its output.
func (m *machine) run(script string) (string, error) { return m.runWithin(limit, script) }

func (m *machine) runWithin(limit time.Duration, script string) (string, error) {
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
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil { // units run as a user
		t.Fatal(err)
	}
	for name, program := range map[string]string{"tidegate": "tidegate/cmd/tidegate", "tidegate-lab": "tidegate/cmd/tidegate-lab",
		"nats-server": "github.com/nats-io/nats-server/v2"} {
		if err := world.Build(filepath.Join(bin, name), program); err != nil {
			t.Fatal(err)
		}
	}
	if err := world.BuildDPDK(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Getenv(dpdk.ProgramEnv), filepath.Join(bin, "tidegate-dpdk")); err != nil {
		t.Fatal(err)
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
