// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

// complete fails unless a check that is not ok has a meaning and a fix.
func complete(t *testing.T, c Check) {
	t.Helper()
	if c.Name == "" || c.Found == "" || c.Status != OK && (c.Means == "" || c.Fix == "") {
		t.Errorf("incomplete: %+v", c)
	}
	for _, s := range []string{c.Name, c.Found, c.Means, c.Fix} {
		if strings.ContainsAny(s, "\n\t") {
			t.Errorf("more than one line: %q", s)
		}
	}
}

func want(t *testing.T, c Check, status Status, text string) {
	t.Helper()
	complete(t, c)
	if c.Status != status || !strings.Contains(fmt.Sprintf("%s|%s|%s", c.Found, c.Means, c.Fix), text) {
		t.Errorf("want %s and %q, got %+v", status, text, c)
	}
}

func TestReleaseCheck(t *testing.T) {
	want(t, releaseCheck("6.9.0", true), OK, "6.9.0")
	want(t, releaseCheck("6.18.44-x", true), OK, "6.18")
	want(t, releaseCheck("7.0.0-rc1", true), OK, "7.0")
	want(t, releaseCheck("6.8.12", false), Fail, "run Linux 6.9 or newer")
	want(t, releaseCheck("6.1.0-30-amd64", false), Fail, "older than 6.9")
	want(t, releaseCheck("5.14.0-503.el9", true), OK, "ported back")
	want(t, releaseCheck("", false), Warn, "cannot be read")
}

func TestKernelFeatures(t *testing.T) {
	want(t, btfCheck(nil), OK, "")
	want(t, btfCheck(os.ErrNotExist), Fail, "CONFIG_DEBUG_INFO_BTF")
	want(t, adoptCheck(true, true), OK, adoptKfunc)
	want(t, adoptCheck(false, true), Fail, "not in this kernel")
	want(t, adoptCheck(false, false), Fail, "without BTF")
	want(t, iteratorCheck(true), OK, "")
	want(t, iteratorCheck(false), Warn, "not in this kernel")
	want(t, judge("n", "f", nil, Fail, "m", "d"), OK, "f")
	want(t, judge("n", "f", fmt.Errorf("x: %w", ebpf.ErrNotSupported), Fail, "m", "d"), Fail, "not in this kernel")
	want(t, judge("n", "f", errors.New("odd\nthing"), Fail, "m", "d"), Warn, "cannot be probed: odd")
	for _, c := range programChecks(false) {
		want(t, c, Warn, "as root")
	}
}

func TestPrivileges(t *testing.T) {
	for _, tc := range []struct {
		caps uint64
		ok   bool
		text string
	}{
		{1<<12 | 1<<38 | 1<<39, true, ""},
		{1<<12 | 1<<21, true, ""},
		{1<<38 | 1<<39, false, "CAP_NET_ADMIN"},
		{1 << 12, false, "CAP_BPF, CAP_PERFMON"},
		{0, false, "run as root"},
	} {
		c, ok := privilegeCheck(tc.caps)
		status := Fail
		if tc.ok {
			status = OK
		}
		want(t, c, status, tc.text)
		if ok != tc.ok {
			t.Errorf("caps %x: %v", tc.caps, ok)
		}
	}
}

func TestMounts(t *testing.T) {
	want(t, bpffsCheck(true, true), OK, bpffsPath)
	want(t, bpffsCheck(false, true), Warn, "mount -t bpf")
	want(t, bpffsCheck(false, false), Fail, "CONFIG_BPF_SYSCALL")
	want(t, cgroupCheck("/c", true), OK, "/c")
	want(t, cgroupCheck("", true), Fail, "mount -t cgroup2")
	want(t, cgroupCheck("", false), Fail, "CONFIG_CGROUPS")
	info := "22 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n30 22 0:26 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
	if got := cgroup2Mount(info); got != "/sys/fs/cgroup/unified" {
		t.Errorf("cgroup2Mount = %q", got)
	}
	if got := cgroup2Mount("30 22 0:26 / /x rw - cgroup cgroup rw,cgroup2\nshort - cgroup2 x\n"); got != "" {
		t.Errorf("cgroup2Mount = %q", got)
	}
	if !hasFilesystem("nodev\tsysfs\nnodev\tbpf\n\text4\n", "bpf") || hasFilesystem("nodev\tcgroup\n", "cgroup2") {
		t.Error("hasFilesystem")
	}
}

func TestSysctls(t *testing.T) {
	want(t, sysctlCheck(0, "0", nil), Fail, "sysctl -w net.ipv4.tcp_syncookies=1")
	want(t, sysctlCheck(0, "2", nil), OK, "2")
	want(t, sysctlCheck(0, "", os.ErrNotExist), Warn, "cannot be read")
	for i := 1; i < len(sysctls); i++ {
		want(t, sysctlCheck(i, "0", nil), Warn, "sysctl -w "+sysctls[i].name)
		want(t, sysctlCheck(i, "1", nil), OK, "1")
	}
}

func TestNIC(t *testing.T) {
	good := nic{name: "eth0", up: true, mtu: 1500, xdpKnown: true, nativeXDP: true}
	for _, tc := range []struct {
		change func(*nic)
		mode   config.XDPMode
		status Status
		text   string
	}{
		{func(*nic) {}, config.XDPAuto, OK, "native XDP, MTU 1500"},
		{func(n *nic) { n.device.farAway = true }, config.XDPAuto, OK, "native XDP if the far end"}, // as the start decides (internal/plane/farend.go)
		{func(n *nic) { n.device.farAway, n.role = true, config.RoleServer }, config.XDPAuto, OK, "native XDP, MTU 1500"},
		{func(n *nic) { n.device.farAway = true }, config.XDPNative, OK, "native XDP, MTU 1500"},
		{func(n *nic) { n.up = false }, config.XDPAuto, Warn, "ip link set eth0 up"},
		{func(n *nic) { n.vlanStrips = true }, config.XDPAuto, Warn, "ethtool -K eth0 rxvlan off"},
		{func(n *nic) { n.mtu = 9000 }, config.XDPAuto, Warn, "mtu 3498"},
		{func(n *nic) { n.mtu = 9000 }, config.XDPGeneric, OK, ""},
		{func(n *nic) { n.nativeXDP = false }, config.XDPAuto, Warn, "generic XDP only"},
		{func(n *nic) { n.nativeXDP = false }, config.XDPNative, Fail, "xdp_mode: auto"},
		{func(n *nic) { n.xdpKnown, n.nativeXDP = false, false }, config.XDPNative, OK, "not known"},
	} {
		n := good
		tc.change(&n)
		want(t, judgeNIC(n, tc.mode), tc.status, tc.text)
	}
	list := interfaceChecks([]string{"none0"}, config.XDPAuto, config.DispatcherAuto, config.RoleHost)
	want(t, list[0], Fail, "does not exist here")
}

func TestServiceCheck(t *testing.T) {
	plain := listeners.Listener{Addr: netip.IPv4Unspecified(), Port: 80}
	mptcp := listeners.Listener{Addr: netip.IPv6Unspecified(), Port: 80, MPTCP: true}
	on := config.Service{Name: "web", Mode: config.ModeAlways}
	want(t, serviceCheck(config.Service{Name: "x", Mode: config.ModeOff}, listeners.Report{}), OK, "off")
	want(t, serviceCheck(on, listeners.Report{Status: listeners.None}), Warn, "nothing listens")
	want(t, serviceCheck(on, listeners.Report{Status: listeners.OK, Listeners: []listeners.Listener{plain},
		Missing: []config.PortRange{{First: 81, Last: 89}}}), OK, "listens on 0.0.0.0:80; no listener here on port 81-89")
	want(t, serviceCheck(on, listeners.Report{Status: listeners.MPTCP, Listeners: []listeners.Listener{plain, mptcp}}),
		Warn, "MPTCP listener: [::]:80")
	above := listeners.Listener{Addr: netip.IPv4Unspecified(), Port: 80, Ifindex: 7, Above: "vrf0"}
	want(t, serviceCheck(on, listeners.Report{Status: listeners.Above, Listeners: []listeners.Listener{plain, above}}),
		Warn, "listener bound to vrf0, a device above the interface: 0.0.0.0:80")
	want(t, serviceCheck(on, listeners.Report{Status: listeners.MPTCP, Listeners: []listeners.Listener{above, plain, mptcp}}),
		Warn, "above the interface: 0.0.0.0:80; MPTCP listener: [::]:80")
	many := []listeners.Listener{plain, plain, plain, plain, plain}
	if got := some(many); !strings.HasSuffix(got, ", 2 more") {
		t.Errorf("some = %q", got)
	}
}

func TestSecretCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	want(t, secretCheck(path), Fail, "tidegate keygen")
	if err := os.WriteFile(path, []byte(strings.Repeat("ab", 32)), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, secretCheck(path), Fail, "chmod 600")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, secretCheck(path), OK, path)
}

// TestRun checks this machine. Where the kernel's release number promises a feature,
// the probe must find it: probes must not fail
// everywhere.
func TestRun(t *testing.T) {
	r := Run(nil)
	failed, warned := 0, 0
	found := map[string]Check{}
	for _, c := range r.Checks {
		complete(t, c)
		found[c.Name] = c
		switch c.Status {
		case Fail:
			failed++
		case Warn:
			warned++
		}
	}
	if r.Failed != failed || r.Warnings != warned || r.OK != (failed == 0) {
		t.Errorf("%d failed, %d warnings; the report says %d, %d", failed, warned, r.Failed, r.Warnings)
	}
	if found["kernel"].Status != OK || os.Geteuid() != 0 {
		t.Skipf("old kernel or no root: %+v", found["kernel"])
	}
	for _, name := range []string{"BTF", "adoption kfunc", "XDP programs", "TC programs", "TCX", "sock_ops programs",
		"TCP iterator", "clock helper", "socket lookup", "socket lookup, XDP"} {
		if found[name].Status != OK {
			t.Errorf("%s: %+v", name, found[name])
		}
	}
}
