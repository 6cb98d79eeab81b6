// SPDX-License-Identifier: Apache-2.0

// Package firstconfig inspects this machine and writes a first configuration for it, role host, with a comment for
// everything that it has found. It must change nothing but the files it is told to write, and overwrite none.
package firstconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/keys"
)

// Machine is what was found.
type Machine struct {
	Interfaces []string // of default routes; if there are none, all that are up
	Guessed    bool     // there is no default route
	Ports      []Port   // TCP ports served to other machines, sorted
	Syncookies bool     // net.ipv4.tcp_syncookies is not 0
	Group      bool     // the machine has the group tidegate
}

// Port is one with a listener.
type Port struct {
	Number uint16
	MPTCP  bool
}

// Look inspects this network namespace.
func Look() (*Machine, error) {
	m := &Machine{}
	if err := m.interfaces(); err != nil {
		return nil, err
	}
	all, err := listeners.Scan()
	if err != nil {
		return nil, err
	}
	m.Ports = ports(all)
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_syncookies")
	m.Syncookies = err == nil && strings.TrimSpace(string(text)) != "0"
	_, err = user.LookupGroup(service)
	m.Group = err == nil
	return m, nil
}

func (m *Machine) interfaces() error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() || r.Type != unix.RTN_UNICAST {
			continue
		}
		if ones, _ := maskOf(r.Dst); ones != 0 {
			continue
		}
		hops := r.MultiPath
		if len(hops) == 0 {
			hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex}}
		}
		for _, h := range hops {
			if dev, err := net.InterfaceByIndex(h.LinkIndex); err == nil && dev.Flags&net.FlagLoopback == 0 {
				m.Interfaces = append(m.Interfaces, dev.Name)
			}
		}
	}
	if len(m.Interfaces) == 0 {
		m.Guessed = true
		all, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, dev := range all {
			if dev.Flags&net.FlagLoopback == 0 && dev.Flags&net.FlagUp != 0 {
				m.Interfaces = append(m.Interfaces, dev.Name)
			}
		}
	}
	slices.Sort(m.Interfaces)
	m.Interfaces = slices.Compact(m.Interfaces)
	return nil
}

func maskOf(n *net.IPNet) (ones, bits int) {
	if n == nil {
		return 0, 0
	}
	return n.Mask.Size()
}

// ports are those that other machines can reach. One MPTCP listener makes its port an MPTCP one.
func ports(all []listeners.Listener) (list []Port) {
	for _, l := range all {
		if l.Addr.IsLoopback() || l.Addr.IsLinkLocalUnicast() {
			continue
		}
		at := slices.IndexFunc(list, func(p Port) bool { return p.Number == l.Port })
		if at == -1 {
			list, at = append(list, Port{Number: l.Port}), len(list)
		}
		list[at].MPTCP = list[at].MPTCP || l.MPTCP
	}
	slices.SortFunc(list, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

// names of services that are easier to read than a number.
var names = map[uint16]string{22: "ssh", 25: "smtp", 53: "dns", 80: "http", 143: "imap", 443: "https", 587: "submission", 853: "dns-tls", 993: "imaps", 6443: "kubernetes"}

// Text is the configuration. Every service is in mode monitor: nothing is answered until the user changes that.
func (m *Machine) Text(secret string) string {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	say("# Tidegate on this machine, as `tidegate init` has found it. Every field: docs/configuration.md")
	say("# Check it:      tidegate check -c FILE")
	say("# Try it:        systemctl enable --now tidegate@NAME   (FILE is /etc/tidegate/NAME.yaml)")
	say("# Look at it:    tidegate status, tidegate events -f")
	say("# Protect:       change `mode: monitor` to `mode: auto`, then `tidegate reload`; at once: tidegate mode http auto")
	say("role: host")
	say("")
	if m.Guessed {
		say("# There is no default route: these are all interfaces that are up. Leave those that clients come through.")
	} else {
		say("# Those of the default routes, where clients come through.")
	}
	if len(m.Interfaces) == 0 {
		say("# None is up; name one.")
		say("interfaces: [eth0]")
	} else {
		say("interfaces: [%s]", strings.Join(quoted(m.Interfaces), ", "))
	}
	say("")
	say("# The key of all cookies. Machines that answer for the same services need the same.")
	say("secret_file: %s", strconv.Quote(secret))
	say("")
	if !m.Syncookies {
		say("# FIRST: sysctl -w net.ipv4.tcp_syncookies=1. It is 0, and so the kernel adopts no connection from a cookie.")
	}
	say("# Counters for Prometheus, and consumers of events:")
	say("# metrics: 127.0.0.1:9464")
	say("# events: {file: /var/log/tidegate/events.json}")
	say("")
	if len(m.Ports) == 0 {
		say("# Nothing listens here for others. A service with a port:")
		m = &Machine{Ports: []Port{{Number: 80}}}
	} else {
		say("# What listens here for others. Take out what need not be protected.")
	}
	say("services:")
	for _, p := range m.Ports {
		if p.MPTCP {
			say("  # Port %d is MPTCP, which the kernel does not adopt for: its SYNs go to the kernel. Let the server listen without (Go: GODEBUG=multipathtcp=0).", p.Number)
		}
		say("  - name: %s", cmp.Or(names[p.Number], fmt.Sprintf("port-%d", p.Number)))
		say("    ports: [%d]", p.Number)
		say("    mode: monitor   # counts and says what would be done; `auto` answers SYNs during an attack, `always` all")
	}
	return out.String()
}

func quoted(list []string) (out []string) {
	for _, s := range list {
		out = append(out, strconv.Quote(s))
	}
	return out
}

// service is the user and group of the packages' units.
const service = "tidegate"

// Write writes the configuration and, where there is none, a secret beside it; both for the user of the units if the machine has it.
func Write(m *Machine, path string) error {
	secret := filepath.Join(filepath.Dir(path), "secret")
	absolute, err := filepath.Abs(secret)
	if err != nil {
		return err
	}
	text := m.Text(absolute)
	if _, err := config.Parse(path, []byte(text)); err != nil {
		return fmt.Errorf("the values found on this machine are not a valid configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; name another with -o FILE, or remove it", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close(), hand(path, false)); err != nil {
		return err
	}
	if _, err := os.Stat(secret); err == nil {
		return nil
	}
	if err := keys.CreateSecret(secret); err != nil {
		return err
	}
	return hand(secret, true)
}

// hand gives a file to the group of the units, or to their user; it does nothing if there is none, or without permission.
func hand(path string, own bool) error {
	u, err := user.Lookup(service)
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	uid, errU := strconv.Atoi(u.Uid)
	gid, errG := strconv.Atoi(u.Gid)
	if err := errors.Join(errU, errG); err != nil {
		return err
	}
	if !own {
		uid = -1
	}
	return os.Chown(path, uid, gid)
}
