// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Classes of the queues; bpf/patrol_tc.bpf.c puts packets into them.
const (
	queueMajor = 1
	classAll   = 0x1
	classTrue  = 0x10 // with the true-source codepoint
	classOther = 0x20
)

// otherShare is what traffic without the codepoint may always use. All that the
// other class leaves over it may use too.
const otherShare = 0.01

// installQueues puts two queues behind a rate on what leaves an interface: packets
// with the codepoint go first, the rest gets what they leave (Terminus, III.A). The
// rate must be the bottleneck's, or queues build up elsewhere.
func installQueues(name string, bitsPerS uint64) error {
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: not found; see `ip link`", name)
	}
	index := dev.Attrs().Index
	root := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index,
		Handle: netlink.MakeHandle(queueMajor, 0), Parent: netlink.HANDLE_ROOT})
	root.Defcls = classOther
	// One with our handle is ours, of an earlier process: start over.
	_ = netlink.QdiscDel(root)
	if err := netlink.QdiscReplace(root); err != nil {
		return fmt.Errorf("interface %s: HTB: %w; is sch_htb in this kernel?", name, err)
	}
	class := func(minor, parent uint16, rate float64, prio uint32) error {
		c := netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: index, Handle: netlink.MakeHandle(queueMajor, minor),
			Parent: netlink.MakeHandle(queueMajor, parent)},
			netlink.HtbClassAttrs{Rate: uint64(rate), Ceil: bitsPerS, Prio: prio})
		return netlink.ClassReplace(c)
	}
	rate := float64(bitsPerS)
	err = errors.Join(
		class(classAll, 0, rate, 0),
		class(classTrue, classAll, rate*(1-otherShare), 0),
		class(classOther, classAll, rate*otherShare, 7))
	if err != nil {
		return fmt.Errorf("interface %s: HTB classes: %w", name, err)
	}
	return nil
}

// removeQueues takes them off again.
func removeQueues(name string) error {
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return nil
	}
	err = netlink.QdiscDel(netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index,
		Handle: netlink.MakeHandle(queueMajor, 0), Parent: netlink.HANDLE_ROOT}))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
