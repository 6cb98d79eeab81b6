// SPDX-License-Identifier: Apache-2.0

package dispatcher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

const (
	drop, pass, tx = 1, 2, 3
	onPass         = 1 << pass
)

// verdict is a component that returns a verdict and changes nothing, although the verifier assumes that it might.
func verdict(name string, action int32, priority uint32) Component {
	return component(name, priority, asm.Mov.Imm(asm.R2, 0), asm.FnXdpAdjustTail.Call(), asm.Mov.Imm(asm.R0, action), asm.Return())
}

func component(name string, priority uint32, code ...asm.Instruction) Component {
	return Component{Name: name, Priority: priority, Chain: onPass, Frags: true, Load: func(target *ebpf.Program, function string) (*ebpf.Program, error) {
		number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}}}
		code[0] = btf.WithFuncMetadata(code[0], &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}).WithSymbol(name)
		return ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.Extension, License: "GPL", AttachTarget: target, AttachTo: function, Instructions: code})
	}}
}

// needed skips if the kernel refuses programs of this type before it verifies them, and fails where the kernel must support them.
func needed(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("XDP needs root")
	}
	if err := Possible(); err != nil {
		if os.Getenv("TIDEGATE_TEST_DISPATCHER") == "" && errors.Is(err, ErrNoExtensions) && errors.Is(err, unix.EPERM) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
}

// onVeth runs a test in a network namespace of its own with a veth that is up.
func onVeth(t *testing.T, test func(p Place, name string) error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends in a network namespace of its own
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there"}); err != nil {
				return err
			}
			dev, err := netlink.LinkByName("here")
			if err != nil {
				return err
			}
			return test(Place{Ifindex: dev.Attrs().Index}, "here")
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func idOfTest(t *testing.T, prog *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	id, err := proginfo.ID(prog)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// names and verdict are what an interface has and says.
func (p Place) says(t *testing.T) (names string, action uint32) {
	t.Helper()
	id, _, err := p.attached()
	if err != nil {
		t.Fatal(err)
	}
	if id == 0 {
		return "", pass
	}
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if action, err = prog.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
	s, err := p.Look()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Components {
		names += fmt.Sprintf("%s@%d ", c.Name, c.Priority)
	}
	s.Close()
	return strings.TrimSpace(names), action
}

func TestJoinReplaceLeave(t *testing.T) {
	needed(t)
	for _, generic := range []bool{false, true} {
		onVeth(t, func(p Place, _ string) error {
			p.Generic = generic
			expect := func(names string, action uint32) {
				t.Helper()
				if got, verdict := p.says(t); got != names || verdict != action {
					t.Errorf("%q says %d, want %q and %d", got, verdict, names, action)
				}
				if _, now, _ := p.attached(); now != generic {
					t.Errorf("generic: %v, want %v", now, generic)
				}
			}
			first, err := p.Join(verdict("first", pass, 20))
			if err != nil {
				return err
			}
			defer first.Close()
			expect("first@20", pass)
			second, err := p.Join(verdict("second", drop, 50))
			if err != nil {
				return err
			}
			defer second.Close()
			expect("first@20 second@50", drop)
			before, err := p.Join(verdict("before", tx, 10))
			if err != nil {
				return err
			}
			defer before.Close()
			expect("before@10 first@20 second@50", tx)
			other, err := p.Replace(idOfTest(t, before), verdict("other", pass, 99))
			if err != nil {
				return err
			}
			defer other.Close()
			expect("other@10 first@20 second@50", drop)
			if _, err := p.Replace(idOfTest(t, before), verdict("other", pass, 99)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("replaced what is gone: %v", err)
			}
			for _, leaves := range []struct {
				prog  *ebpf.Program
				names string
			}{{second, "other@10 first@20"}, {second, "other@10 first@20"}, {other, "first@20"}, {first, ""}} {
				if err := p.Leave(idOfTest(t, leaves.prog)); err != nil {
					return err
				}
				if got, _ := p.says(t); got != leaves.names {
					t.Errorf("%q, want %q", got, leaves.names)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(Dir(), fmt.Sprintf("dispatch-%d-*", p.Ifindex))); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			return nil
		})
	}
}

// A program that is not a dispatcher stays; what a vanished device left is removed; a dispatcher holds ten components.
func TestForeign(t *testing.T) {
	needed(t)
	onVeth(t, func(p Place, name string) error {
		alone, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "alone", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, drop), asm.Return()}})
		if err != nil {
			return err
		}
		defer alone.Close()
		l, err := link.AttachXDP(link.XDPOptions{Program: alone, Interface: p.Ifindex})
		if err != nil {
			return err
		}
		if _, err := p.Join(verdict("ours", pass, 1)); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "alone") {
			t.Errorf("joined a program that is no dispatcher: %v", err)
		}
		if id, _, _ := p.attached(); id != idOfTest(t, alone) {
			t.Errorf("it is %d that is attached", id)
		}
		l.Close()
		var last *ebpf.Program
		for i := range maxComponents {
			if last, err = p.Join(verdict(fmt.Sprintf("ours%d", i), pass, 1)); err != nil {
				return err
			}
			defer last.Close()
		}
		if _, err := p.Join(verdict("eleventh", pass, 1)); err == nil || !strings.Contains(err.Error(), "its maximum") {
			t.Errorf("an eleventh: %v", err)
		}
		dev, _ := netlink.LinkByName(name)
		if err := netlink.LinkDel(dev); err != nil {
			return err
		}
		if err := p.Leave(idOfTest(t, last)); err != nil {
			return err
		}
		if left, _ := filepath.Glob(filepath.Join(Dir(), fmt.Sprintf("dispatch-%d-*", p.Ifindex))); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		return nil
	})
}

// The real xdp-filter and xdp-loader of xdp-tools: before us and after us, and away again.
func TestXDPTools(t *testing.T) {
	needed(t)
	for _, tool := range []string{"xdp-filter", "xdp-loader"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s: apt-get install xdp-tools", err)
		}
	}
	onVeth(t, func(p Place, name string) error {
		run := func(tool string, args ...string) string {
			t.Helper()
			out, err := exec.Command(tool, args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s %v: %v: %s", tool, args, err, out)
			}
			return string(out)
		}
		expect := func(names string) {
			t.Helper()
			if got, _ := p.says(t); got != names {
				t.Errorf("%q, want %q", got, names)
			}
			status := run("xdp-loader", "status", name)
			for _, one := range strings.Fields(names) {
				component, _, _ := strings.Cut(one, "@")
				if !strings.Contains(status, component) {
					t.Errorf("xdp-loader does not see %s:\n%s", component, status)
				}
			}
		}
		// Programs that change packets, as ours do, make libxdp before 1.5.5 refuse to join on kernels that check this
		// (Linux 6.13, and stable releases before): it must then leave everything as it was.
		for changes, ours := range []Component{component("ours", 20, asm.Mov.Imm(asm.R0, pass), asm.Return()), verdict("ours", pass, 20)} {
			run("xdp-filter", "load", name)
			prog, err := p.Join(ours)
			if err != nil {
				return err
			}
			expect("xdpfilt_alw_all@10 ours@20")
			if err := p.Leave(idOfTest(t, prog)); err != nil {
				return err
			}
			prog.Close()
			expect("xdpfilt_alw_all@10")
			run("xdp-filter", "unload", name)
			expect("")
			if prog, err = p.Join(ours); err != nil {
				return err
			}
			defer prog.Close()
			expect("ours@20")
			out, err := exec.Command("xdp-filter", "load", name).CombinedOutput()
			switch {
			case err == nil:
				expect("xdpfilt_alw_all@10 ours@20")
				run("xdp-filter", "unload", name)
			case changes == 0 || !strings.Contains(string(out), "Failed to attach program ours to dispatcher"):
				t.Errorf("xdp-filter after us: %v: %s", err, out)
			}
			expect("ours@20")
			if err := p.Leave(idOfTest(t, prog)); err != nil {
				return err
			}
			expect("")
		}
		return nil
	})
}
