// SPDX-License-Identifier: Apache-2.0

// Package dpdk drives tidegate-dpdk, the proxy's packet path on DPDK: it starts and
// stops the program, configures it over its control socket, reads
// its state through DPDK's telemetry, and what it reports of packets (observe.go). No packet may
// pass through it.
package dpdk

import (
	"bufio"
	hexpkg "encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
)

// answerTime bounds the wait for the program's answer to a change.
const answerTime = 5 * time.Second

// Control is the control socket of a running program.
type Control struct {
	Unresolved chan Unresolved // neighbours that the program's router needs

	conn    net.Conn
	answers chan string // closed when the program has gone
}

// Unresolved is a neighbour whose MAC address the program's router does not know.
type Unresolved struct {
	Neighbour
	Host bool // in an on-link prefix; else a gateway
}

// unresolvedMost are kept for the reader; the program repeats its requests for the rest.
const unresolvedMost = 256

// Dial opens the control socket.
func Dial(path string) (*Control, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	c := &Control{conn: conn, answers: make(chan string, 1), Unresolved: make(chan Unresolved, unresolvedMost)}
	go c.read()
	return c, nil
}

// read separates answers from the program's own messages.
func (c *Control) read() {
	defer close(c.answers)
	for lines := bufio.NewScanner(c.conn); lines.Scan(); {
		rest, asks := strings.CutPrefix(lines.Text(), "unresolved ")
		if !asks {
			c.answers <- lines.Text()
			continue
		}
		if u, ok := parseUnresolved(rest); ok {
			select {
			case c.Unresolved <- u:
			default:
			}
		}
	}
}

// parseUnresolved reads "FAMILY ADDRESS PORT gateway|host".
func parseUnresolved(text string) (u Unresolved, ok bool) {
	f := strings.Fields(text)
	if len(f) != 4 {
		return u, false
	}
	raw, err := hexpkg.DecodeString(f[1])
	if err != nil {
		return u, false
	}
	if u.Addr, ok = netip.AddrFromSlice(raw); !ok {
		return u, false
	}
	u.Port, err = strconv.Atoi(f[2])
	u.Host = f[3] == "host"
	return u, err == nil && u.Port >= 0
}

// Close leaves the program as it is.
func (c *Control) Close() error { return c.conn.Close() }

// Apply makes the program take all lines, or none.
func (c *Control) Apply(lines []string) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c.conn, strings.Join(append(lines, "commit"), "\n"), "\n"); err != nil {
		return fmt.Errorf("control socket of tidegate-dpdk: %w", err)
	}
	answer, err := c.answer(time.After(answerTime))
	if err == nil && answer != "ok" {
		return fmt.Errorf("tidegate-dpdk: %s", answer)
	}
	return err
}

// answer is the next line of an answer.
func (c *Control) answer(late <-chan time.Time) (string, error) {
	select {
	case line, alive := <-c.answers:
		if !alive {
			return "", errors.New("control socket of tidegate-dpdk: it was closed")
		}
		return line, nil
	case <-late:
		_ = c.conn.Close() // otherwise its late answer would be taken for the next one's
		return "", errors.New("control socket of tidegate-dpdk: no answer")
	}
}

// NoLists is the line that ends allow and deny lists.
const NoLists = "lists"

// ApplyLists gives the program the table of allow and deny lists. It reads the file, which is written and removed here, before it
// answers.
func (c *Control) ApplyLists(path string, table *sourcelist.Table) (err error) {
	blocks := make([]byte, table.Blocks()*sourcelist.BlockBytes)
	table.Bytes(blocks)
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	if err := os.WriteFile(path, blocks, 0o600); err != nil {
		return fmt.Errorf("lists for tidegate-dpdk: %w", err)
	}
	return c.Apply([]string{NoLists + " " + path})
}

// Flags of a port's entry, core/service.h.
const portHasPrefixes = 0x80000000

// How is a service's setting beyond what every gate has.
type How struct{ Strategy, FirstData, Fixed int }

// FirstDataStore is the treatment of first data that only this plane has.
const FirstDataStore = schema.FirstDataStore

// ServiceLine is the line for one service's entry.
func ServiceLine(id uint32, s *plane.Service, h How) string {
	return fmt.Sprintf("service %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d", id, s.MssV4, s.MssV6, s.Window,
		s.Wscale, s.Sack, s.Timestamps, s.Ecn, s.Mode, h.Strategy, h.FirstData, h.Fixed, s.SignedCostUs, s.Automatic, s.Verify, s.FlowKey)
}

// ServiceLines are the lines for all services; the tables they make hold nothing else.
func ServiceLines(targets []plane.Target, how map[uint32]How) []string {
	lines := []string{"clear"}
	ports := map[uint16]uint32{}
	for _, t := range targets {
		lines = append(lines, ServiceLine(t.ID, &t.Service, how[t.ID]))
		all4, all6 := false, false
		for _, p := range t.Prefixes {
			all4 = all4 || p.Bits() == 0 && p.Addr().Is4()
			all6 = all6 || p.Bits() == 0 && p.Addr().Is6()
		}
		for _, r := range t.Ports {
			for port := uint32(r[0]); port <= uint32(r[1]); port++ {
				if all4 && all6 {
					ports[uint16(port)] |= t.ID // the only service on this port
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

// RouteKind is how a route's next hop is known.
type RouteKind int

// Kinds of routes, as in dpdk/tables/next_hop.h.
const (
	RouteMAC     RouteKind = iota // its MAC address
	RouteGateway                  // a neighbour
	RouteOnLink                   // the destination is a neighbour
	RouteLocal                    // none: this machine, or unreachable
)

// Route is a route as the program's router knows it.
type Route struct {
	Kind    RouteKind
	Prefix  netip.Prefix
	Port    int // of DPDK
	MAC     net.HardwareAddr
	Gateway netip.Addr
}

// RouteLines are the lines for a router.
func RouteLines(routes []Route) (lines []string) {
	for _, r := range routes {
		prefix := fmt.Sprintf("%d %d %s", family(r.Prefix.Addr()), r.Prefix.Bits(), hex(r.Prefix.Masked().Addr()))
		switch r.Kind {
		case RouteMAC:
			lines = append(lines, fmt.Sprintf("route %s %d %x", prefix, r.Port, []byte(r.MAC)))
		case RouteGateway:
			lines = append(lines, fmt.Sprintf("gateway %s %d %d %s", prefix, r.Port, family(r.Gateway), hex(r.Gateway)))
		case RouteOnLink:
			lines = append(lines, fmt.Sprintf("onlink %s %d", prefix, r.Port))
		case RouteLocal:
			lines = append(lines, "local "+prefix)
		}
	}
	return lines
}

// NeighbourLine is the line for a neighbour's MAC address; zeros: it has none.
func NeighbourLine(n Neighbour, mac net.HardwareAddr) string {
	return fmt.Sprintf("neighbour %d %s %d %x", family(n.Addr), hex(n.Addr), n.Port, []byte(mac))
}

// AddressLine makes a router answer ARP for an IPv4 address.
func AddressLine(a netip.Addr, port int) string {
	return fmt.Sprintf("address %d %x", port, a.AsSlice())
}

// Link is a port as ICMP errors present it: the MTU of its link, and the
// router's addresses there; an invalid address is none.
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
