// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// AsNobody makes a program that runs tidegate as another user with only these capabilities, in a mount namespace
// with what the packages' units provide: /run/tidegate and /sys/fs/bpf/tidegate. The files become that user's.
func AsNobody(t *testing.T, tidegate, dir string, files []string, caps ...string) (program string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	holder := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs run /run/tidegate && chown 65534:65534 /run/tidegate &&
mount -t bpf bpf /sys/fs/bpf && mkdir /sys/fs/bpf/tidegate && chown 65534:65534 /sys/fs/bpf/tidegate && chmod 755 /sys/fs/bpf && echo there && exec cat`)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := holder.StdinPipe()
	must(err)
	var said Output
	holder.Stdout, holder.Stderr = &said, &said
	must(os.MkdirAll("/run/tidegate", 0o755))
	must(holder.Start())
	t.Cleanup(func() {
		in.Close()
		_ = holder.Wait()
	})
	Until(t, "mounts", func() bool { return strings.Contains(said.String(), "there") })
	must(os.Chmod(filepath.Dir(dir), 0o755))
	must(os.Chmod(filepath.Dir(tidegate), 0o755))
	for _, f := range files {
		must(os.Chown(f, 65534, 65534))
	}
	set := "-all"
	for _, c := range caps {
		set += ",+" + c
	}
	program = filepath.Join(dir, "as-nobody")
	must(os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec nsenter -m -t %d setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps %s --ambient-caps %s --bounding-set %s %s \"$@\"\n",
		holder.Process.Pid, set, set, set, tidegate), 0o700))
	return program
}
