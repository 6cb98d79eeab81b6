// Package dpdk drives tidegate-dpdk, the proxy's packet path on DPDK: starts and
// stops the program, gives it its configuration over its control socket, and reads
// what it tells by DPDK's telemetry. It must never see a packet.
package dpdk

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/plane"
)

// answerTime bounds the wait for the program's answer to a change.
const answerTime = 5 * time.Second

// Control is the control socket of a running program.
type Control struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial opens the control socket.
func Dial(path string) (*Control, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	return &Control{conn: conn, in: bufio.NewReader(conn)}, nil
}

// Close leaves the program as it is.
func (c *Control) Close() error { return c.conn.Close() }

// Apply makes the program take all lines, or none.
func (c *Control) Apply(lines []string) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c.conn, strings.Join(append(lines, "commit"), "\n"), "\n"); err != nil {
		return fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	answer, err := c.in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	if answer != "ok\n" {
		return fmt.Errorf("tidegate-dpdk: %s", strings.TrimSpace(answer))
	}
	return nil
}

// Flags of a port's entry, core/service.h.
const portHasPrefixes = 0x80000000

// How is what the program is told of a service beside what every gate is.
type How struct{ Strategy, FirstData, Fixed int }

// FirstDataStore is what only this plane does with clients' first data.
const FirstDataStore = 2

// ServiceLines are the lines for all services; the tables they make hold nothing else.
func ServiceLines(targets []plane.Target, how map[uint32]How) []string {
	lines := []string{"clear"}
	ports := map[uint16]uint32{}
	for _, t := range targets {
		s, h := t.Service, how[t.ID]
		lines = append(lines, fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d %d %d", t.ID, s.MssV4, s.MssV6, s.Window,
			s.Wscale, s.Sack, s.Timestamps, s.Ecn, s.Mode, h.Strategy, h.FirstData, h.Fixed))
		all4, all6 := false, false
		for _, p := range t.Prefixes {
			all4 = all4 || p.Bits() == 0 && p.Addr().Is4()
			all6 = all6 || p.Bits() == 0 && p.Addr().Is6()
		}
		for _, r := range t.Ports {
			for port := uint32(r[0]); port <= uint32(r[1]); port++ {
				if all4 && all6 {
					ports[uint16(port)] |= t.ID // the only one of this port
				}
				for _, p := range t.Prefixes {
					if all4 && all6 && p.Bits() == 0 {
						continue
					}
					ports[uint16(port)] |= portHasPrefixes
					lines = append(lines, fmt.Sprintf("prefix %d %d %s %d %d", family(p.Addr()), p.Bits(), hex(p.Addr()), port, t.ID))
				}
			}
		}
	}
	for port, entry := range ports {
		lines = append(lines, fmt.Sprintf("port %d %d", port, entry))
	}
	return lines
}

// Route is a next hop as the program's router knows it.
type Route struct {
	Prefix netip.Prefix
	Port   int // of DPDK
	MAC    net.HardwareAddr
}

// RouteLines are the lines for a router.
func RouteLines(routes []Route) (lines []string) {
	for _, r := range routes {
		lines = append(lines, fmt.Sprintf("route %d %d %s %d %x", family(r.Prefix.Addr()), r.Prefix.Bits(),
			hex(r.Prefix.Masked().Addr()), r.Port, []byte(r.MAC)))
	}
	return lines
}

// AddressLine makes a router answer ARP for an IPv4 address.
func AddressLine(a netip.Addr, port int) string {
	return fmt.Sprintf("address %d %x", port, a.AsSlice())
}

// Link is what a router says of a port in ICMP errors: the MTU of its link, and whom it
// is there; an address that is not valid is none.
type Link struct {
	Port       int // of DPDK
	MTU        int // bytes of an IP packet
	IPv4, IPv6 netip.Addr
}

// LinkLines are the lines for a router's links.
func LinkLines(links []Link) (lines []string) {
	for _, l := range links {
		four, six := [4]byte{}, [16]byte{}
		if l.IPv4.IsValid() {
			four = l.IPv4.As4()
		}
		if l.IPv6.IsValid() {
			six = l.IPv6.As16()
		}
		lines = append(lines, fmt.Sprintf("link %d %d %x %x", l.Port, l.MTU, four, six))
	}
	return lines
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

func hex(a netip.Addr) string {
	var raw [16]byte
	copy(raw[:], a.AsSlice())
	return fmt.Sprintf("%x", raw)
}
