// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bounds of requests to the kernel. Requests for gateways are unbounded: the configuration
// names them. Hosts in on-link prefixes are what a scan forges; the program has bounds
// for each prefix (dpdk/tables/waiting.h), these are for all of them together. They keep the
// kernel's own table (net.ipv4.neigh.default.gc_thresh3: 1,024) from filling up.
const (
	hostsASecond = 64
	hostsPending = 128
	pendingTime  = 5 * time.Second // the kernel gives up after three
	pokesASecond = 64              // neighbours reconfirmed
)

// neighbourUse is a state in which the kernel would send to a neighbour.
const neighbourUse = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT

// Neighbour is one that the program's router knows or needs.
type Neighbour struct {
	Addr netip.Addr
	Port int // of DPDK
}

// Neighbours keeps the program's table of neighbours equal to the kernel's, makes the kernel
// resolve those that the program requests, and makes it confirm stale ones:
// the kernel itself sends nothing to them and would never probe them.
type Neighbours struct {
	Updates chan netlink.NeighUpdate // closed when the kernel's messages overflowed: make a new one

	done     chan struct{}
	ports    map[int]int // by index of the interface
	indexes  []int       // by port
	reported map[Neighbour]string
	pending  map[Neighbour]time.Time // requested hosts
	allowed  int                     // requests for hosts that are left in this second
	next     int                     // index of the next one to confirm
}

// WatchNeighbours starts; Updates has all known neighbours first.
func WatchNeighbours(interfaces []string) (*Neighbours, error) {
	n := &Neighbours{ports: map[int]int{}, reported: map[Neighbour]string{}, pending: map[Neighbour]time.Time{}, allowed: hostsASecond}
	for i, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		n.ports[dev.Attrs().Index] = i
		n.indexes = append(n.indexes, dev.Attrs().Index)
	}
	return n, n.Watch()
}

// Watch starts over after Updates has been closed.
func (n *Neighbours) Watch() error {
	n.Updates, n.done = make(chan netlink.NeighUpdate, 1024), make(chan struct{})
	err := netlink.NeighSubscribeWithOptions(n.Updates, n.done, netlink.NeighSubscribeOptions{
		ListExisting: true, ReceiveBufferSize: 1 << 20, ReceiveBufferForceSize: true,
		ErrorCallback: func(error) {}, // the channel is closed, which is noticed
	})
	if err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	return nil
}

// Close ends the subscription.
func (n *Neighbours) Close() { close(n.done) }

// Take returns the program's line for a change in the kernel's table.
func (n *Neighbours) Take(u netlink.NeighUpdate) (lines []string) {
	port, ours := n.ports[u.LinkIndex]
	addr, ok := netip.AddrFromSlice(u.IP)
	if !ours || !ok || u.Family != unix.AF_INET && u.Family != unix.AF_INET6 || u.Flags&netlink.NTF_PROXY != 0 {
		return nil
	}
	who := Neighbour{addr.Unmap(), port}
	switch {
	case u.Type == unix.RTM_DELNEIGH:
		// Evicted, not gone: the kernel clears its table of neighbours that it sends nothing to.
		if n.reported[who] != "" && n.Ask(who, true) != nil {
			return n.forget(who)
		}
	case u.State&netlink.NUD_FAILED != 0:
		_, asked := n.pending[who]
		if delete(n.pending, who); asked && n.reported[who] == "" {
			_ = netlink.NeighDel(&u.Neigh) // no longer needed, and it frees a place
		}
		return n.forget(who)
	case u.State&neighbourUse != 0 && len(u.HardwareAddr) == 6 && u.HardwareAddr[0]&1 == 0:
		delete(n.pending, who)
		if mac := u.HardwareAddr.String(); n.reported[who] != mac {
			n.reported[who] = mac
			return []string{NeighbourLine(who, u.HardwareAddr)}
		}
	}
	return nil
}

func (n *Neighbours) forget(who Neighbour) []string {
	if n.reported[who] == "" {
		return nil
	}
	delete(n.reported, who)
	return []string{NeighbourLine(who, make(net.HardwareAddr, 6))}
}

// ErrBusy: too many requests are pending.
var ErrBusy = errors.New("too many neighbour requests are pending")

// Ask makes the kernel resolve a neighbour, or confirm a known one; the result is
// an update. `host`: the neighbour is not one that the configuration names.
func (n *Neighbours) Ask(who Neighbour, host bool) error {
	if who.Port >= len(n.indexes) {
		return fmt.Errorf("port %d: unknown", who.Port)
	}
	if host {
		if n.allowed == 0 || len(n.pending) >= hostsPending {
			return ErrBusy
		}
		n.allowed--
		n.pending[who] = time.Now()
	}
	return n.use(who)
}

// use triggers what a packet to the neighbour would.
func (n *Neighbours) use(who Neighbour) error {
	err := netlink.NeighSet(&netlink.Neigh{LinkIndex: n.indexes[who.Port], Family: family46(who.Addr), IP: who.Addr.AsSlice(),
		Flags: netlink.NTF_USE, State: netlink.NUD_NONE})
	if errors.Is(err, unix.ENOBUFS) {
		return fmt.Errorf("the kernel's table of neighbours, which all network namespaces share, is full; raise net.ipv%d.neigh.default.gc_thresh3: %w",
			map[bool]int{true: 4, false: 6}[who.Addr.Is4()], err)
	}
	return err
}

// Tick, called once a second, makes the kernel confirm some stale neighbours.
func (n *Neighbours) Tick(now time.Time) error {
	n.allowed = hostsASecond
	for who, since := range n.pending {
		if now.Sub(since) > pendingTime {
			delete(n.pending, who)
		}
	}
	pokes := 0
	for i, index := range n.indexes {
		list, err := netlink.NeighList(index, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("neighbours: %w", err)
		}
		for k := range list {
			e := &list[(n.next+k)%len(list)]
			addr, ok := netip.AddrFromSlice(e.IP)
			if who := (Neighbour{addr.Unmap(), i}); ok && e.State&netlink.NUD_STALE != 0 && n.reported[who] != "" && pokes < pokesASecond {
				_ = n.use(who) // it may have vanished in the meantime
				pokes++
			}
		}
	}
	n.next++
	return nil
}

func family46(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
