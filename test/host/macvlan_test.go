// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// A container on a macvlan child of the protected interface serves its own clients at its own
// addresses, on the same port; the host serves its own.
func TestContainerOnMacvlan(t *testing.T) {
	const n = 40
	w := newWorld(t)
	w.echoServer(webPort)
	inside := w.addContainer()
	for _, ipv6 := range families() {
		l := w.listenIn(inside, ipv6)
		l.serve(echo)
	}
	w.start(w.webConfig(webPort))
	for _, ipv6 := range families() {
		for i := range n {
			c, err := dialer{from: w.Client, to: netip.AddrPortFrom(containerAddr(ipv6), webPort)}.dial()
			if err == nil {
				err = c.ping()
				c.Close()
			}
			if err != nil {
				t.Fatalf("%s: connection %d to the container: %v", familyName(ipv6), i, err)
			}
		}
	}
	w.mustPingNew(n)
	own := uint64(n * len(families()))
	w.wantCounters(map[string]uint64{"syn": own, "adopted": own, "pass_frame": own})
}

func containerAddr(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr("fd7d:7467:4::c")
	}
	return netip.MustParseAddr("198.18.3.12")
}

// addContainer makes a namespace with a macvlan child of the server's port.
func (w *world) addContainer() *rig.Namespace {
	w.t.Helper()
	inside, err := w.AddNamespace("container")
	w.must(err)
	w.ip(w.Server, "link add link tg-server name tg-inside netns "+inside.Name+" type macvlan mode bridge")
	w.ip(inside, "link set tg-inside up")
	for _, ipv6 := range families() {
		bits := map[bool]string{false: "24", true: "64 nodad"}[ipv6]
		w.ip(inside, fmt.Sprintf("address add %s/%s dev tg-inside", containerAddr(ipv6), bits))
	}
	return inside
}

// listenIn makes a listener on the wildcard of a family in a namespace.
func (w *world) listenIn(n *rig.Namespace, ipv6 bool) *listener {
	w.t.Helper()
	fd, err := socket(n, ipv6, unix.IPPROTO_TCP)
	w.must(err)
	l := &listener{fd: fd, done: make(chan struct{}), conns: make(chan conn, 64)}
	close(l.done)
	w.t.Cleanup(l.close)
	_, err = newConn(fd)
	w.must(err)
	any := netip.IPv4Unspecified()
	if ipv6 {
		any = netip.IPv6Unspecified()
		w.must(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	}
	w.must(unix.Bind(fd, sockaddr(netip.AddrPortFrom(any, webPort))))
	w.must(unix.Listen(fd, 512))
	return l
}
