// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

// As on a kernel without TCX: filters at clsact are pinned, found, updated in one step, restored, and
// removed; the qdisc is removed with the last of ours, and stays for a filter of another program.
func TestFiltersInThePlaceOfLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TC needs root")
	}
	withoutTCX = true
	defer func() { withoutTCX = false }()
	var progs [3]*ebpf.Program
	for i := range progs {
		var err error
		if progs[i], err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}}); err != nil {
			t.Fatal(err)
		}
		defer progs[i].Close()
	}
	dir := fmt.Sprintf("/sys/fs/bpf/tg-hook-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := inNamespace(func() error {
		return filters(t, dir, progs)
	}); err != nil {
		t.Fatal(err)
	}
}

func filters(t *testing.T, dir string, progs [3]*ebpf.Program) error {
	const lo = 1
	dev, err := netlink.LinkByIndex(lo)
	if err != nil {
		return err
	}
	runs := func(when string, want ...*ebpf.Program) {
		t.Helper()
		list, _ := netlink.FilterList(dev, netlink.HANDLE_MIN_INGRESS)
		var ids, wanted []ebpf.ProgramID
		for _, f := range list {
			ids = append(ids, ebpf.ProgramID(f.(*netlink.BpfFilter).Id))
		}
		for _, p := range want {
			id, _ := proginfo.ID(p)
			wanted = append(wanted, id)
		}
		if fmt.Sprint(ids) != fmt.Sprint(wanted) {
			t.Errorf("%s: programs %v, want %v", when, ids, wanted)
		}
	}
	ingress, egress := filepath.Join(dir, pinName("tc", "lo")), filepath.Join(dir, pinName("egress", "lo"))
	for path, at := range map[string]ebpf.AttachType{ingress: ebpf.AttachTCXIngress, egress: ebpf.AttachTCXEgress} {
		h, err := newTCHook(progs[0], lo, at, false)
		if err != nil {
			return err
		}
		if _, ok := h.(*filterHook); !ok {
			t.Errorf("a %T", h)
		}
		if _, err := pinNew(h, path); err != nil {
			return err
		}
	}
	runs("attached", progs[0])
	if lost := detachedIn(dir); len(lost) != 0 {
		t.Errorf("attached, but missed: %v", lost)
	}
	if got := linkIfindex(ingress); got != lo {
		t.Errorf("found on device %d", got)
	}
	a, err := takeOver(ingress, progs[1], nil)
	if err != nil || a == nil {
		return fmt.Errorf("taken over: %v, %w", a, err)
	}
	runs("taken over", progs[1])
	if err := (&attachments{dir: dir, tc: map[string]*attachment{"lo": a}}).undo(); err != nil {
		return err
	}
	runs("undone", progs[0])
	foreign := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: lo, Parent: netlink.HANDLE_MIN_INGRESS, Protocol: unix.ETH_P_ALL, Priority: 9, Handle: 1},
		Fd: progs[2].FD(), Name: "foreign", DirectAction: true}
	if err := netlink.FilterAdd(foreign); err != nil {
		return err
	}
	runs("beside another's", progs[0], progs[2])
	if h, err := openHook(egress); err != nil {
		return err
	} else if err := netlink.FilterDel(h.(*filterHook).filter); err != nil {
		return err
	}
	if lost := detachedIn(dir); !strings.Contains(lost["lo"], "egress") {
		t.Errorf("somebody's removal of a filter is not seen: %v", lost)
	}
	if err := errors.Join(detachPin(egress), detachPin(ingress)); err != nil {
		return err
	}
	runs("taken off", progs[2])
	if err := netlink.FilterDel(foreign); err != nil {
		return err
	}
	h, err := newTCHook(progs[0], lo, ebpf.AttachTCXIngress, false) // the qdisc is now another program's
	if err != nil {
		return err
	}
	qdiscs := func() (n int) {
		list, _ := netlink.QdiscList(dev)
		for _, q := range list {
			if q.Type() == "clsact" {
				n++
			}
		}
		return n
	}
	if err := h.Detach(); err != nil || qdiscs() != 1 {
		t.Errorf("somebody else's qdisc was taken off: %v", err)
	}
	if err := netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: lo, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}); err != nil {
		return err
	}
	if h, err = newTCHook(progs[0], lo, ebpf.AttachTCXIngress, false); err != nil {
		return err
	}
	if err := h.Detach(); err != nil || qdiscs() != 0 {
		t.Errorf("our qdisc stays: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("pins are left: %v", entries)
	}
	return nil
}
