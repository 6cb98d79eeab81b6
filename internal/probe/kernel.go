// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	neededMajor, neededMinor = 6, 9
	adoptKfunc               = "bpf_sk_assign_tcp_reqsk"
	orAuto                   = "set `takeover: auto`, or "
	newerKernel              = "run Linux 6.9 or newer; on Debian 12: `apt install -t bookworm-backports linux-image-amd64`"
)

func kernelChecks() []Check {
	var u unix.Utsname
	release := ""
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	spec, err := btf.LoadKernelSpec()
	adopt := err == nil && hasFunc(spec, adoptKfunc)
	iterator := err == nil && hasStruct(spec, "bpf_iter__tcp")
	return []Check{
		releaseCheck(release, adopt),
		btfCheck(err),
		adoptCheck(adopt, err == nil),
		iteratorCheck(iterator),
	}
}

// CannotAdopt returns why this kernel cannot adopt connections for any listener;
// empty if it can.
func CannotAdopt() string {
	spec, err := btf.LoadKernelSpec()
	if c := adoptCheck(err == nil && hasFunc(spec, adoptKfunc), err == nil); c.Status != OK {
		return c.Found
	}
	return ""
}

func hasFunc(spec *btf.Spec, name string) bool {
	var f *btf.Func
	return spec.TypeByName(name, &f) == nil
}

func hasStruct(spec *btf.Spec, name string) bool {
	var s *btf.Struct
	return spec.TypeByName(name, &s) == nil
}

// releaseCheck checks the release number, and accepts an older kernel that has the
// function that the number stands for: distributions backport features.
func releaseCheck(release string, adopt bool) Check {
	c := Check{Name: "kernel", Status: OK, Found: release}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		c.Status, c.Found = Warn, fmt.Sprintf("release %q cannot be read", release)
		c.Means, c.Fix = "the other checks decide", "see `uname -r`"
		return c
	}
	if major > neededMajor || major == neededMajor && minor >= neededMinor {
		return c
	}
	if adopt {
		c.Found += ", with " + adoptKfunc + " ported back"
		return c
	}
	c.Status, c.Fix = Fail, orAuto+newerKernel
	c.Means = fmt.Sprintf("older than %d.%d: the kernel cannot adopt connections", neededMajor, neededMinor)
	return c
}

func btfCheck(err error) Check {
	if err == nil {
		return Check{Name: "BTF", Status: OK, Found: "kernel type information is readable"}
	}
	return Check{Name: "BTF", Status: Fail, Found: firstLine(err), Means: "the programs cannot be fitted to this kernel",
		Fix: "run a kernel built with CONFIG_DEBUG_INFO_BTF=y, as every big distribution does"}
}

func adoptCheck(there, readable bool) Check {
	c := Check{Name: "adoption kfunc", Status: OK, Found: adoptKfunc}
	if there {
		return c
	}
	c.Status, c.Found, c.Fix = Fail, adoptKfunc+" is not in this kernel", orAuto+newerKernel
	if !readable {
		c.Found = "cannot be looked up without BTF"
	}
	c.Means = "the kernel cannot make a socket from a cookie"
	return c
}

func iteratorCheck(there bool) Check {
	if there {
		return Check{Name: "TCP iterator", Status: OK, Found: "bpf_iter__tcp"}
	}
	return Check{Name: "TCP iterator", Status: Warn, Found: "not in this kernel",
		Means: "connections made before the start are not known: a client that reuses such a port may have to retry",
		Fix:   "run a kernel built with CONFIG_BPF_SYSCALL, CONFIG_DEBUG_INFO_BTF and CONFIG_PROC_FS"}
}

// programChecks passes tiny programs to the kernel's verifier; nothing is attached.
func programChecks(privileged bool) []Check {
	const needBPF = "run a kernel built with CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_BPF, CONFIG_CGROUP_BPF and CONFIG_MPTCP"
	if !privileged {
		return []Check{{Name: "BPF programs", Status: Warn, Found: "not looked at without privileges",
			Means: "whether this kernel takes the programs is not known", Fix: "run `tidegate check` as root"}}
	}
	helper := func(pt ebpf.ProgramType, fn asm.BuiltinFunc) func() error {
		return func() error { return features.HaveProgramHelper(pt, fn) }
	}
	programType := func(pt ebpf.ProgramType) func() error {
		return func() error { return features.HaveProgramType(pt) }
	}
	var list []Check
	for _, p := range []struct {
		name, found string
		probe       func() error
		lack        Status
		means       string
	}{
		{"XDP programs", "can be loaded", programType(ebpf.XDP), Fail, "SYNs cannot be answered"},
		{"TC programs", "can be loaded", programType(ebpf.SchedCLS), Fail, "ACKs cannot be verified"},
		{"sock_ops programs", "can be loaded", programType(ebpf.SockOps), Fail, "ports in TIME-WAIT cannot be recognised: their reuse would stall"},
		{"clock helper", "bpf_ktime_get_coarse_ns", helper(ebpf.XDP, asm.FnKtimeGetCoarseNs), Fail, "the packet path cannot tell the epoch"},
		{"socket lookup", "bpf_skc_lookup_tcp", helper(ebpf.SchedCLS, asm.FnSkcLookupTcp), Fail, "listeners and live connections cannot be found"},
		{"socket lookup, XDP", "bpf_skc_lookup_tcp", helper(ebpf.XDP, asm.FnSkcLookupTcp), Fail, "listeners and live connections cannot be found"},
		{"MPTCP helper", "bpf_skc_to_mptcp_sock", helper(ebpf.SchedCLS, asm.FnSkcToMptcpSock), Warn, "MPTCP listeners are recognised only by polling inet_diag"},
	} {
		list = append(list, judge(p.name, p.found, p.probe(), p.lack, p.means, needBPF))
	}
	return append(list, tcxCheck(probeTCX()))
}

// tcxCheck reports how TC programs are attached.
func tcxCheck(err error) Check {
	if err == nil {
		return Check{Name: "TCX", Status: OK, Found: "programs can be linked to TC ingress"}
	}
	return Check{Name: "TCX", Status: OK, Found: "not in this kernel (Linux 6.6): programs are attached as filters of a clsact qdisc"}
}

// judge converts the result of a feature probe to a check.
func judge(name, found string, err error, lack Status, means, fix string) Check {
	switch {
	case err == nil:
		return Check{Name: name, Status: OK, Found: found}
	case errors.Is(err, ebpf.ErrNotSupported):
		return Check{Name: name, Status: lack, Found: "not in this kernel", Means: means, Fix: fix}
	}
	return Check{Name: name, Status: Warn, Found: "cannot be probed: " + firstLine(err),
		Means: "if it is lacking: " + means, Fix: "run as root and outside of containers that filter bpf(2)"}
}

// probeTCX lists the programs linked at lo: only a kernel with TCX answers.
func probeTCX() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("no lo: %w", err)
	}
	_, err = link.QueryPrograms(link.QueryOptions{Target: lo.Index, Attach: ebpf.AttachTCXIngress})
	if errors.Is(err, unix.EINVAL) {
		return ebpf.ErrNotSupported
	}
	return err
}

func firstLine(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "not there"
	}
	s := err.Error()
	for i, ch := range s {
		if ch == '\n' {
			return s[:i]
		}
	}
	return s
}
