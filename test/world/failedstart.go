// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/rig"
)

// FailedStart runs `tidegate run` in a namespace, expects it to fail before it is ready, and
// returns what it said.
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

// BlockState has starts of an instance fail when all is attached: the state file cannot be written.
func BlockState(t *testing.T, instance string) (unblock func()) {
	t.Helper()
	path := "/run/tidegate/" + instance + ".json.new"
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	return func() { _ = os.Remove(path) }
}

// OccupyXDP gives an interface somebody else's XDP program, which passes everything.
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
