// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
)

// dpdkChecks checks what a proxy on DPDK needs. Its packet path is a program, so that nothing of BPF concerns it, and
// the kernel must not forward what it forwards.
func dpdkChecks(c *config.Config) []Check {
	at, err := dpdk.Find("tidegate-dpdk")
	list := []Check{unless("tidegate-dpdk", at, err, "build it with `make dpdk`, and put it beside tidegate")}
	d := &c.Proxy.DPDK
	if len(d.Devices) == 0 {
		list = append(list, kernelPortChecks(c)...)
	}
	for _, dev := range d.Devices {
		if pciAddress.MatchString(dev) {
			driver, err := os.Readlink("/sys/bus/pci/devices/" + dev[:len("0000:03:00.0")] + "/driver")
			list = append(list, judgeCard(dev, filepath.Base(driver), err))
		}
	}
	if d.HugePages {
		list = append(list, judgeHugePages(d.MemoryMiB, meminfo("Hugepagesize"), hugePagesFree()))
	}
	return append(list, judgeDPDKMemory(c, meminfo("MemAvailable")), secretCheck(c.SecretFile))
}

// unless is a check of what a start needs.
func unless(name, found string, err error, fix string) Check {
	if err != nil {
		return Check{Name: name, Status: Fail, Found: err.Error(), Means: "`tidegate run` refuses to start", Fix: fix}
	}
	return Check{Name: name, Status: OK, Found: found}
}

var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]`)

// kernelPortChecks are for AF_PACKET on the kernel's interfaces.
func kernelPortChecks(c *config.Config) (list []Check) {
	for _, name := range c.Interfaces {
		link, err := net.InterfaceByName(name)
		found := "AF_PACKET, for trials: for speed give `dpdk.devices` the cards"
		if err == nil && len(link.HardwareAddr) != 6 {
			err = fmt.Errorf("%s is no Ethernet device", name)
		}
		list = append(list, unless("interface "+name, found, err, "correct `interfaces:`, see `ip link`"))
	}
	if c.Proxy.Forwarding != config.ForwardRouter {
		return list
	}
	forwards := Check{Name: "forwarding", Status: OK, Found: "not by the kernel"}
	if dpdk.KernelForwards() {
		forwards = Check{Name: "forwarding", Status: Fail, Found: "the kernel forwards, too", Means: "each packet would be forwarded twice: `tidegate run` refuses to start",
			Fix: "run `sysctl -w net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0`"}
	}
	return append(append(list, forwards), pathChecks(c)...)
}

// judgeCard judges a PCI device by the driver that has it.
func judgeCard(dev, driver string, err error) Check {
	const fix = "see `dpdk-devbind.py --status`, and run `dpdk-devbind.py --bind=vfio-pci ADDRESS`"
	switch {
	case err != nil:
		return Check{Name: "device " + dev, Status: Fail, Found: "is not there, or no driver has it", Means: "`tidegate run` cannot open it", Fix: fix}
	case slices.Contains([]string{"vfio-pci", "igb_uio", "uio_pci_generic", "mlx4_core", "mlx5_core", "mana"}, driver): // those of Mellanox and Microsoft are shared with the kernel
		return Check{Name: "device " + dev, Status: OK, Found: "by " + driver}
	}
	return Check{Name: "device " + dev, Status: Fail, Found: "the kernel's driver " + driver + " has it", Means: "DPDK cannot open it", Fix: fix}
}

func hugePagesFree() (free uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "HugePages_Free: %d", &free)
	}
	return free
}

// judgeHugePages compares what is reserved and free with what frames need.
func judgeHugePages(needMiB int, pageBytes, free uint64) Check {
	have := pageBytes * free >> 20
	check := Check{Name: "huge pages", Status: OK, Found: fmt.Sprintf("%d MiB free, %d MiB needed", have, needMiB)}
	if have < uint64(needMiB) {
		check.Status, check.Means, check.Fix = Fail, "`tidegate run` cannot allocate its buffers", "run `echo N >/proc/sys/vm/nr_hugepages`, or set `huge_pages: false`"
		if pageBytes > 0 {
			check.Fix = fmt.Sprintf("run `echo %d >/proc/sys/vm/nr_hugepages`, or set `huge_pages: false`", (uint64(needMiB)<<20+pageBytes-1)/pageBytes)
		}
	}
	return check
}

// judgeDPDKMemory adds what is mapped at the start: three generations of flows (dpdk/tables), frames, and the bitmap.
func judgeDPDKMemory(c *config.Config, available uint64) Check {
	d := &c.Proxy.DPDK
	need := uint64(3*256) << bits.Len(uint(c.Proxy.MaxFlows-1))
	if !d.HugePages {
		need += uint64(d.MemoryMiB) << 20
	}
	if d.WhiteBitmap {
		need += 3 << 29
	}
	check := Check{Name: "memory", Status: OK, Found: fmt.Sprintf("%d MiB for tables and frames, %d MiB available", need>>20, available>>20)}
	if need > available {
		check.Status, check.Means, check.Fix = Fail, "`tidegate run` cannot make its tables", "lower `max_flows` or `dpdk.memory_mib`, or add memory"
	}
	return check
}
