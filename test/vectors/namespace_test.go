// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/vectors"
)

// The addresses of vectors/packets.py.
var (
	serverAddrs = []netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8:2::7")}
	peerAddrs   = []netip.Addr{netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8:1::200")}
)

const (
	serverPort = 80
	peerPort   = 45678
	patience   = 5 * time.Second // for what must come; never reached unless something is broken
)

// namespace is a nameless network namespace, which vanishes with its thread,
// with a server on both address families and a peer.
type namespace struct {
	listeners [2]net.Listener
	client    [2]net.Conn
	server    [2]net.Conn
	kept      []net.Conn // adopted connections
	state     string
}

// enterNamespace moves the calling goroutine into a new namespace for good.
func enterNamespace(t testing.TB) *namespace {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	pinThread(t)           // per-CPU state is then the same for all packets of a vector
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	for _, a := range append(append([]netip.Addr{}, serverAddrs...), peerAddrs...) {
		if err == nil {
			err = netlink.AddrAdd(lo, &netlink.Addr{Flags: unix.IFA_F_NODAD,
				IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}})
		}
	}
	if err != nil {
		t.Fatalf("loopback: %v", err)
	}
	ns := &namespace{state: vectors.SocketNone}
	t.Cleanup(ns.close)
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false) // the kernel does not adopt for MPTCP listeners
	for i, a := range serverAddrs {
		l, err := lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(a, serverPort).String())
		if err != nil {
			t.Fatal(err)
		}
		ns.listeners[i] = l
	}
	return ns
}

// pinThread keeps the calling thread on one of the processors that it may use.
func pinThread(t testing.TB) {
	t.Helper()
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for cpu := range len(may) * bits.UintSize {
		if may.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
}

// want brings the peer's sockets into a state; see vectors/README.md.
func (ns *namespace) want(state string) error {
	if state == ns.state || state == vectors.SocketListener || state == vectors.SocketNone {
		return nil
	}
	for i := range ns.listeners {
		if ns.client[i] == nil {
			if err := ns.connect(i); err != nil {
				return err
			}
		}
		if state == vectors.SocketTimeWait {
			if err := ns.closeFromServer(i); err != nil {
				return err
			}
		}
	}
	ns.state = state
	return nil
}

func (ns *namespace) connect(i int) error {
	d := net.Dialer{Timeout: patience,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(peerAddrs[i], peerPort))}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", netip.AddrPortFrom(serverAddrs[i], serverPort).String())
	if err != nil {
		return err
	}
	ns.client[i] = c
	ns.server[i], err = acceptWithin(ns.listeners[i])
	return err
}

// closeFromServer closes the server's side first: TIME-WAIT stays there.
func (ns *namespace) closeFromServer(i int) error {
	if err := ns.server[i].Close(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, ns.client[i]); err != nil { // until its FIN has come
		return err
	}
	err := ns.client[i].Close()
	ns.client[i], ns.server[i] = nil, nil
	return err
}

func (ns *namespace) close() {
	for _, c := range ns.kept {
		c.Close()
	}
	for i := range ns.listeners {
		for _, c := range []io.Closer{ns.client[i], ns.server[i], ns.listeners[i]} {
			if c != nil {
				c.Close()
			}
		}
	}
}

func acceptWithin(l net.Listener) (net.Conn, error) {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	c, err := l.Accept()
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return c, nil
}

// sysctl writes a setting of the namespace that the calling thread is in.
func sysctl(name, value string) error {
	return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) // the writer's namespace's
}
