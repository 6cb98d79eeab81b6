// SPDX-License-Identifier: Apache-2.0

package load

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// The load client uses bare non-blocking sockets and one epoll loop: it opens
// thousands of connections a second on a core that it shares with the server.

// tcpSocket makes a plain TCP socket (never MPTCP).
func tcpSocket(ipv6 bool, flags int) (int, error) {
	domain := unix.AF_INET
	if ipv6 {
		domain = unix.AF_INET6
	}
	return syscall.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, unix.IPPROTO_TCP)
}

func sockaddr(a netip.AddrPort) syscall.Sockaddr {
	if a.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
