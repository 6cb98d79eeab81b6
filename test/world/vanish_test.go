// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// A connection that vanished makes way for another from the same port at once, even while a second
// descriptor, such as a forked process has until it executes a program, still refers to its socket.
func TestVanish(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("namespaces need root: run with sudo")
	}
	n, err := rig.NewNamespace("-vanish")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	if err := n.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:80", "[::1]:80"} {
		to := netip.MustParseAddrPort(address)
		accepted, gone := make(chan struct{}, 2), make(chan struct{})
		Serve(t, n, func(c *net.TCPConn) {
			defer c.Close()
			accepted <- struct{}{}
			<-gone // then a FIN is sent, which nobody expects: it is answered by RST
		}, to)
		client := Client{LocalPort: 5000}
		old, err := client.Dial(n, to)
		if err != nil {
			t.Fatal(err)
		}
		<-accepted
		raw, err := old.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var second int
		var vanished error
		if err := raw.Control(func(fd uintptr) {
			second, _ = unix.Dup(int(fd))
			vanished = Vanish(int(fd))
		}); err != nil || vanished != nil {
			t.Fatal(err, vanished)
		}
		defer unix.Close(second)
		_ = old.Close()
		close(gone)
		again, err := client.Dial(n, to)
		if err != nil {
			t.Fatalf("%s: connect again: %v", address, err)
		}
		_ = again.Close()
	}
}
