package host

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// system is what this machine and network namespace say that matters to a
// SYN-ACK or to the socket filter.
type system struct {
	mtu             int // smallest of the interfaces
	tcpRmem         [3]int
	rmemMax         int
	windowScaling   bool
	sack            bool
	timestamps      bool
	ecn             bool
	syncookies      int
	netnsCookie     uint64
	filterKeepTicks uint16
	forwards        bool
}

const (
	filterTickSeconds = 17  // core/tuple_filter.h: 2^34 ns
	timeWaitSeconds   = 60  // TCP_TIMEWAIT_LEN, include/net/tcp.h
	minMTU            = 576 // RFC 791: below this nothing sensible can be told
	defaultRmemMax    = 212992
	defaultRmem       = 131072 // tcp_rmem[1] of a kernel that nobody has told otherwise
)

func readSystem(interfaces []string) (system, error) {
	s := system{mtu: 65535}
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return s, fmt.Errorf("interface %s: not found; `ip link` lists those of this network namespace", name)
		}
		s.mtu = min(s.mtu, max(dev.MTU, minMTU))
	}
	var err error
	if s.netnsCookie, err = netnsCookie(); err != nil {
		return s, err
	}
	rmem, err := sysctlInts("net/ipv4/tcp_rmem", 3)
	if err != nil {
		return s, err
	}
	s.tcpRmem = [3]int{rmem[0], rmem[1], rmem[2]}
	s.rmemMax = defaultRmemMax
	if v, err := sysctlInts("net/core/rmem_max", 1); err == nil { // not shown in every namespace
		s.rmemMax = v[0]
	}
	ints := map[string]int{}
	for _, name := range []string{"tcp_window_scaling", "tcp_sack", "tcp_timestamps", "tcp_ecn", "tcp_syncookies", "tcp_fin_timeout"} {
		v, err := sysctlInts("net/ipv4/"+name, 1)
		if err != nil {
			return s, err
		}
		ints[name] = v[0]
	}
	s.windowScaling = ints["tcp_window_scaling"] != 0
	s.sack = ints["tcp_sack"] != 0
	s.timestamps = ints["tcp_timestamps"] != 0
	s.ecn = ints["tcp_ecn"] != 0
	s.syncookies = ints["tcp_syncookies"]
	s.forwards = forwards(interfaces)
	// A closed socket waits in FIN-WAIT-2 and then in TIME-WAIT; one tick more,
	// because the first one is cut short.
	s.filterKeepTicks = uint16((ints["tcp_fin_timeout"]+timeWaitSeconds)/filterTickSeconds + 2)
	return s, nil
}

// watchSystem looks whether interfaces or sysctls have other values than before;
// true if the services' entries have to be written anew. What cannot be read
// stays as it was.
func (g *gate) watchSystem() (changed bool) {
	now, err := readSystem(g.cfg.Interfaces)
	if err != nil {
		if !g.badSys {
			g.log.Error("reading the system's values; those from before stay in use", "error", err)
		}
		g.badSys = true
		return false
	}
	g.badSys = false
	if now == g.system {
		return false
	}
	if now.syncookies == 0 && g.system.syncookies != 0 {
		g.log.Error("SYNs go to the kernel", "error", errSyncookies)
	}
	g.log.Info("the system's values have changed; SYN-ACKs follow", "mtu", now.mtu)
	g.system = now
	g.services.rmemSeen[now.tcpRmem[1]] = true
	g.settings.FilterKeepTicks = max(g.settings.FilterKeepTicks, now.filterKeepTicks)
	return true
}

func sysctlInts(name string, n int) ([]int, error) {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return nil, fmt.Errorf("sysctl %s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < n {
		return nil, fmt.Errorf("sysctl %s: %q is not %d numbers", name, text, n)
	}
	values := make([]int, n)
	for i := range values {
		if values[i], err = strconv.Atoi(fields[i]); err != nil {
			return nil, fmt.Errorf("sysctl %s: %w", name, err)
		}
	}
	return values, nil
}

// netnsCookie is the number by which BPF programs know this network namespace.
func netnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("SO_NETNS_COOKIE: %w; Linux 5.14 or newer is needed", err)
	}
	return cookie, nil
}

// ensureBPFFS mounts a BPF file system where there is none.
func ensureBPFFS(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mounting a BPF file system at %s: %w; try `mount -t bpf bpf %s`", dir, err, dir)
	}
	return nil
}

// cgroupRoot is where cgroup v2 is mounted.
func cgroupRoot() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		before, after, ok := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(before)
		if ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) >= 5 {
			return fields[4], nil
		}
	}
	return "", errNoCgroup
}
