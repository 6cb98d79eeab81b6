// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// FailedStart runs `tidegate run` in a namespace, expects it to fail before it is ready, and
// returns its output.
func FailedStart(t *testing.T, ns *rig.Namespace, tidegate, configPath string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs Output
	cmd := exec.CommandContext(ctx, tidegate, "run", "-c", configPath)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := ns.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || ctx.Err() != nil || strings.Contains(out.String(), "ready") {
		t.Fatalf("a start that cannot succeed: %v, says %q, %s", err, out.String(), errs.String())
	}
	return errs.String()
}

// BlockState makes starts of an instance fail after everything is attached: the state file cannot be written.
func BlockState(t *testing.T, instance string) (unblock func()) {
	t.Helper()
	path := "/run/tidegate/" + instance + ".json.new"
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	return func() { _ = os.Remove(path) }
}

// KilledStart runs `tidegate run` and kills it when everything is attached and nothing is committed: it blocks while writing its
// state file into a full pipe.
func KilledStart(t *testing.T, ns *rig.Namespace, tidegate, configPath, instance string) {
	t.Helper()
	path := "/run/tidegate/" + instance + ".json.new"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	var out, errs Output
	cmd := exec.CommandContext(t.Context(), tidegate, "run", "-c", configPath)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := ns.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	fds := fmt.Sprintf("/proc/%d/fd/", cmd.Process.Pid)
	Until(t, "the start to write its state", func() bool {
		entries, _ := os.ReadDir(fds)
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			to, err := os.Readlink(fds + e.Name())
			return err == nil && to == path
		})
	})
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil || strings.Contains(out.String(), "ready") {
		t.Fatalf("a start that was killed: %v, says %q, %s", err, out.String(), errs.String())
	}
}

// OccupyXDP attaches a foreign XDP program, which passes everything, to an interface.
func OccupyXDP(t *testing.T, ns *rig.Namespace, name string) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	err = ns.Do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Index})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// InTurn dials over each family in turn.
func InTurn(dial func(ipv6 bool) (*net.TCPConn, error)) func() (*net.TCPConn, error) {
	all, n := Families(), new(atomic.Uint64)
	return func() (*net.TCPConn, error) { return dial(all[n.Add(1)%uint64(len(all))]) }
}
