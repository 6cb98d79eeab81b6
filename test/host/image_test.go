// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	harness "tidegate/test/world"
)

// engine is podman with storage of its own. Its containers share the network of the process that starts it.
type engine struct {
	holder  int    // a process in the mounts that it runs in
	dir     string // its storage
	cgroups string // where cgroup v2 is mounted
}

func newEngine(w *world) engine {
	w.t.Helper()
	e := engine{dir: filepath.Join(w.dir, "podman"), cgroups: filepath.Join(w.dir, "cgroups")}
	w.must(os.Mkdir(e.cgroups, 0o755))
	holder := exec.Command("unshare", "-m", "sh", "-ec", `mount --make-rprivate / && mount -t cgroup2 none `+e.cgroups+`
if grep -q ' /sys/fs/cgroup/unified ' /proc/mounts; then umount /sys/fs/cgroup/unified; fi # crun refuses the mixture
echo there && exec cat`)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := holder.StdinPipe()
	w.must(err)
	var output harness.Output
	holder.Stdout, holder.Stderr = &output, &output
	w.must(holder.Start())
	w.t.Cleanup(func() {
		in.Close()
		_ = holder.Wait()
	})
	w.await("mounts", func() bool { return strings.Contains(output.String(), "there") })
	e.holder = holder.Process.Pid
	return e
}

func (e engine) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-m", "-t", fmt.Sprint(e.holder), "podman", "--root", filepath.Join(e.dir, "root"), "--runroot", filepath.Join(e.dir, "run"),
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"}, args...)...)
}

// The image runs with three capabilities and a read-only file system: it protects, reports that it is ready, ends on SIGTERM without
// a gap, is replaced by another container, and detaches everything. TIDEGATE_IMAGE is the archive of `make image`.
func TestImage(t *testing.T) {
	archive := os.Getenv("TIDEGATE_IMAGE")
	if archive == "" {
		t.Skip("needs podman and an image: `make test-packages` builds one, or set TIDEGATE_IMAGE to the archive of `make image`")
	}
	w := newWorld(t)
	w.echoServer(webPort)
	e := newEngine(w)
	load := func(args ...string) string {
		t.Helper()
		out, err := e.command(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("podman %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	load("load", "--input", archive)
	var images []struct{ Id string }
	w.must(json.Unmarshal([]byte(load("images", "--format", "json")), &images))
	if len(images) != 1 {
		t.Fatalf("%d images in %s", len(images), archive)
	}
	t.Cleanup(func() { _ = e.command("rmi", "--all", "--force").Run() })

	// The router's address answers no BGP, so the session stays down; the speaker must run all the same.
	w.writeConfig(w.webConfig(webPort, "bgp: {as: 64512, router_id: 203.0.113.2, own: [203.0.113.0/24]}",
		"bgp_peers:", "  - {address: "+w.ClientAddr(false).String()+", as: 64500}"))
	name := w.Instance
	volumes := []string{"--volume", "/run/tidegate:/run/tidegate", "--volume", "/sys/fs/bpf:/sys/fs/bpf", "--volume", e.cgroups + ":/sys/fs/cgroup:ro",
		"--volume", w.configPath + ":/etc/tidegate/tidegate.yaml:ro", "--volume", w.secret + ":/etc/tidegate/secret:ro"}
	start := func() (stderr *harness.Output, exited chan struct{}) {
		t.Helper()
		var out, errs harness.Output
		// What docs/install.md lists, and the network namespace of the process that runs podman.
		cmd := e.command(append(append([]string{"run", "--rm", "--name", name, "--cgroups", "disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
			"--network", "host", "--cap-drop", "all", "--cap-add", "BPF,PERFMON,NET_ADMIN", "--security-opt", "no-new-privileges", "--security-opt", "seccomp=unconfined",
			"--read-only", "--read-only-tmpfs=false"}, volumes...), images[0].Id)...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		w.must(w.Server.Do(cmd.Start))
		exited = make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(exited)
		}()
		t.Cleanup(func() {
			_ = e.command("rm", "--force", "--time", "0", name).Run()
			<-exited
			w.in.Forget()
		})
		w.await("a container that is ready", func() bool {
			select {
			case <-exited:
				t.Fatalf("the container has ended: %s%s", out.String(), errs.String())
			default:
			}
			return strings.Contains(out.String(), "ready\n")
		})
		return &errs, exited
	}
	inside := func(args ...string) (string, error) {
		out, err := e.command(append([]string{"exec", name, "/tidegate"}, args...)...).CombinedOutput()
		return string(bytes.TrimSpace(out)), err
	}
	stop := func(exited chan struct{}) {
		t.Helper()
		load("stop", "--time", "20", name)
		<-exited
	}
	_, exited := start()
	if out, err := inside("status", "--ready", "--instance", w.Instance); err != nil || out != "protecting web" {
		t.Errorf("its probe: %v: %q", err, out)
	}
	var speaker struct{ Running bool }
	if out, err := inside("bgp", "list", "--instance", w.Instance, "--json"); err != nil {
		t.Errorf("tidegate bgp list: %v: %s", err, out)
	} else if w.must(json.Unmarshal([]byte(out), &speaker)); !speaker.Running {
		t.Errorf("tidegate-bgp does not run in the image: %s", out)
	}
	status, err := os.ReadFile("/proc/" + strings.TrimSpace(load("inspect", "--format", "{{.State.Pid}}", name)) + "/status")
	w.must(err)
	if !strings.Contains(string(status), "CapEff:\t000000c000001000\n") || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("it has other capabilities than BPF, PERFMON and NET_ADMIN:\n%s", status)
	}
	l := w.startLoad()
	l.more(20)
	stop(exited)
	l.more(20)
	if out, _, err := w.tidegateRun("status", "--ready", "--instance", w.Instance); err == nil {
		t.Errorf("without a container it is ready: %s", out)
	}
	_, exited = start()
	l.more(20)
	if c := w.counters(); c["adopted"]+c["split_ready"] == 0 {
		t.Errorf("nobody was protected: %v, %v", harness.NonZero(w.counters()), w.status().Takeovers)
	}
	l.end()
	l.noFailure()
	stop(exited)
	w.off()
	w.nothingInstalled()
}
