// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
)

const onDPDK = `
role: proxy
plane: dpdk
forwarding: router
interfaces: [lo, none0]
secret_file: /none
services: [{name: web, prefixes: [192.0.2.0/24], ports: [80]}]
`

// A proxy on DPDK needs what its own start needs: its program, and a kernel that does not forward.
func TestDPDKChecks(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tidegate-dpdk")
	t.Setenv(dpdk.ProgramEnv, program)
	c, err := config.Parse("dpdk.yaml", []byte(onDPDK))
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) Check {
		t.Helper()
		list := dpdkChecks(c)
		i := slices.IndexFunc(list, func(k Check) bool { return k.Name == name })
		if i < 0 {
			t.Fatalf("no check %q in %+v", name, list)
		}
		return list[i]
	}
	want(t, of("tidegate-dpdk"), Fail, "make dpdk")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, of("tidegate-dpdk"), OK, program)
	want(t, of("interface none0"), Fail, "ip link")
	if dpdk.KernelForwards() {
		want(t, of("forwarding"), Fail, "sysctl -w net.ipv4.ip_forward=0")
	} else {
		want(t, of("forwarding"), OK, "not by the kernel")
	}
	if list := Run(c).Checks; slices.ContainsFunc(list, func(k Check) bool { return k.Name == "XDP programs" || k.Name == "forwarding IPv4" }) {
		t.Errorf("checks of the kernel's packet path: %+v", list)
	}
}

func TestCards(t *testing.T) {
	want(t, judgeCard("0000:03:00.0", "", errors.New("none")), Fail, "dpdk-devbind.py")
	want(t, judgeCard("0000:03:00.0", "ixgbe", nil), Fail, "ixgbe")
	want(t, judgeCard("0000:03:00.0", "vfio-pci", nil), OK, "vfio-pci")
	want(t, judgeCard("0000:03:00.0,rx=1", "mlx5_core", nil), OK, "mlx5_core")
	want(t, judgeHugePages(1024, 2<<20, 512), OK, "1024 MiB free")
	want(t, judgeHugePages(1024, 2<<20, 511), Fail, "echo 512 >")
	want(t, judgeHugePages(1024, 0, 0), Fail, "huge_pages: false")
	c := &config.Config{Proxy: config.Proxy{MaxFlows: 1 << 20, DPDK: config.DPDK{MemoryMiB: 256}}}
	want(t, judgeDPDKMemory(c, 1<<30), OK, "1024 MiB for tables")
	want(t, judgeDPDKMemory(c, 1<<30-1), Fail, "max_flows")
}
