// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/proginfo"
)

// hook is an attached program, with a pin by which a later process finds it.
type hook interface {
	Update(*ebpf.Program) error // in one step
	Pin(path string) error
	Detach() error
	Close() error // the program stays attached, if it is pinned

	program() (ebpf.ProgramID, error)
	ifindex() int // 0: the device is gone; -1: not known
}

// openHook opens a pin. A pinned program stands for a filter at clsact (filterHook), or for a
// component of an XDP dispatcher (dispatchedHook).
func openHook(path string) (hook, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if err == nil {
		return linkHook{l}, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if prog, progErr := ebpf.LoadPinnedProgram(path, nil); progErr == nil {
		defer prog.Close()
		if prog.Type() == ebpf.Extension {
			return findDispatched(path, prog)
		}
		return findFilter(path, prog)
	}
	return nil, err
}

// linkHook is a bpf_link.
type linkHook struct{ link.Link }

func (h linkHook) program() (ebpf.ProgramID, error) {
	info, err := h.Info()
	if err != nil {
		return 0, err
	}
	return info.Program, nil
}

func (h linkHook) ifindex() int {
	info, err := h.Info()
	if err != nil {
		return -1
	}
	if x := info.XDP(); x != nil {
		return int(x.Ifindex)
	}
	if x := info.TCX(); x != nil {
		return int(x.Ifindex)
	}
	return -1
}

// filterHook is a filter at a clsact qdisc, where a kernel has no TCX (before 6.6). It outlives every
// process by itself; its program is pinned, which distinguishes our filter from others'.
type filterHook struct {
	filter *netlink.BpfFilter
	id     ebpf.ProgramID
	path   string // of the pin, once there is one
}

const (
	filterPriority = 1 // or, to come last:
	lastPriority   = 0xff00
	filterName     = "tidegate"
	filterNameMade = "tidegate, with its qdisc" // the qdisc is removed with its last filter
)

// withoutTCX makes every program attach as on a kernel without TCX; for tests.
var withoutTCX bool

func parentOf(at ebpf.AttachType) uint32 {
	if at == ebpf.AttachTCXEgress {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

// attachFilter attaches before or after all existing filters.
func attachFilter(prog *ebpf.Program, index int, at ebpf.AttachType, last bool) (*filterHook, error) {
	id, err := proginfo.ID(prog)
	if err != nil {
		return nil, err
	}
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	name := filterNameMade
	if err := netlink.QdiscAdd(qdisc); errors.Is(err, unix.EEXIST) {
		name = filterName
	} else if errors.Is(err, unix.ENOENT) {
		return nil, errors.New("this kernel has neither TCX (Linux 6.6) nor the qdisc clsact: load its modules with `modprobe -a sch_ingress cls_bpf`")
	} else if err != nil {
		return nil, fmt.Errorf("clsact: %w; an `ingress` qdisc in its place must be replaced by `tc qdisc replace dev DEV clsact`", err)
	}
	priority := uint16(filterPriority)
	if last {
		priority = lastPriority
	}
	f := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parentOf(at), Protocol: unix.ETH_P_ALL,
		Priority: priority, Handle: uint32(id)}, // different from any other instance's
		Fd: prog.FD(), Name: name, DirectAction: true}
	if err := netlink.FilterAdd(f); err != nil {
		return nil, fmt.Errorf("clsact filter: %w", err)
	}
	return &filterHook{filter: f, id: id}, nil
}

// findFilter finds the filter that runs a pinned program; os.ErrNotExist if it is gone.
func findFilter(path string, prog *ebpf.Program) (hook, error) {
	id, err := proginfo.ID(prog)
	if err != nil {
		return nil, err
	}
	kind, name, _ := cutPinName(filepath.Base(path))
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return &filterHook{path: path, id: id}, nil // gone, and the filter with it
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if kind == "egress" {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	filters, _ := netlink.FilterList(dev, parent)
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && ebpf.ProgramID(b.Id) == id {
			b.LinkIndex, b.Parent = dev.Attrs().Index, parent
			return &filterHook{filter: b, id: id, path: path}, nil
		}
	}
	return &filterHook{path: path, id: id}, nil
}

func (h *filterHook) program() (ebpf.ProgramID, error) { return h.id, nil }

func (h *filterHook) ifindex() int {
	if h.filter == nil {
		return 0
	}
	return h.filter.LinkIndex
}

func (h *filterHook) Update(prog *ebpf.Program) error {
	if h.filter == nil {
		return os.ErrNotExist
	}
	id, err := proginfo.ID(prog)
	if err != nil {
		return err
	}
	next := *h.filter
	next.Fd, next.DirectAction = prog.FD(), true
	if err := netlink.FilterReplace(&next); err != nil {
		return fmt.Errorf("clsact filter: %w", err)
	}
	h.filter, h.id = &next, id
	if h.path == "" {
		return nil
	}
	return pinInPlace(prog, h.path)
}

// pinInPlace replaces a pinned program by another, in one step.
func pinInPlace(prog *ebpf.Program, path string) error {
	own, err := prog.Clone() // one program may have several pins
	if err != nil {
		return err
	}
	defer own.Close()
	fresh := filepath.Join(filepath.Dir(path), "next-"+filepath.Base(path))
	_ = os.Remove(fresh)
	if err := own.Pin(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func (h *filterHook) Pin(path string) error {
	prog, err := ebpf.NewProgramFromID(h.id)
	if err != nil {
		return err
	}
	defer prog.Close()
	if err := pinInPlace(prog, path); err != nil {
		return err
	}
	h.path = path
	return nil
}

// Detach removes the filter; and the qdisc, if it was created for it and has no other filter.
func (h *filterHook) Detach() error {
	if h.filter == nil {
		return nil
	}
	f := h.filter
	h.filter = nil
	if err := netlink.FilterDel(f); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if f.Name != filterNameMade {
		return nil
	}
	dev, err := netlink.LinkByIndex(f.LinkIndex)
	if err != nil {
		return nil
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		left, err := netlink.FilterList(dev, parent)
		if err != nil {
			return nil
		}
		if len(left) > 0 {
			return nil
		}
	}
	return netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: f.LinkIndex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
}

func (h *filterHook) Close() error { return nil }
