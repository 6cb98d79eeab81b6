// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The loopback device has no native XDP: auto goes on without, and keeps the reason; native fails.
func TestNativeRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("XDP needs root")
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends in a network namespace of its own
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			const lo = 1
			if _, _, err := newXDPLink(prog, "lo", lo, XDPNative); err == nil {
				return errors.New("native XDP on lo")
			}
			l, refused, err := newXDPLink(prog, "lo", lo, XDPAuto)
			if err != nil {
				return err
			}
			defer l.Close()
			p := Plane{links: &attachments{}}
			p.links.noteRefusal("lo", refused)
			if attachedMode(lo) != XDPGeneric || refused == nil || p.NativeRefused()["lo"] != refused.Error() {
				t.Errorf("mode %s, refused: %v, kept: %v", attachedMode(lo), refused, p.NativeRefused())
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
