// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inFreshNetns runs f on a thread in a network namespace of its own. The
// thread is not given back, so nothing of it leaks into other tests.
func inFreshNetns(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a network namespace")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// listen makes a listener on any port and returns it with that port.
func listen(network, addr string, mptcp bool, control func(fd int) error) (net.Listener, uint16, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(mptcp)
	lc.Control = func(_, _ string, c syscall.RawConn) error {
		var inner error
		err := c.Control(func(fd uintptr) {
			if control != nil {
				inner = control(int(fd))
			}
		})
		if err != nil {
			return err
		}
		return inner
	}
	l, err := lc.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, 0, err
	}
	return l, uint16(l.Addr().(*net.TCPAddr).Port), nil
}

func mptcpEnabled() bool {
	b, err := os.ReadFile("/proc/sys/net/mptcp/enabled")
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

func TestScan(t *testing.T) {
	const rcvBuf = 16 << 10
	inFreshNetns(t, func() error {
		if ls, err := Scan(); err != nil || len(ls) != 0 {
			return fmt.Errorf("fresh namespace: %v, %w", ls, err)
		}
		want := map[uint16]Listener{}
		for _, c := range []struct {
			network, addr string
			mptcp         bool
			control       func(int) error
			want          Listener
		}{
			{"tcp4", "0.0.0.0:0", false, nil, Listener{Addr: netip.IPv4Unspecified()}},
			{"tcp", "[::]:0", false, nil, Listener{Addr: netip.IPv6Unspecified()}},
			{"tcp6", "[::]:0", false, nil, Listener{Addr: netip.IPv6Unspecified(), V6Only: true}},
			{"tcp4", "0.0.0.0:0", true, nil, Listener{Addr: netip.IPv4Unspecified(), MPTCP: true}},
			{"tcp6", "[::]:0", true, nil, Listener{Addr: netip.IPv6Unspecified(), V6Only: true, MPTCP: true}},
			{"tcp4", "0.0.0.0:0", false, func(fd int) error {
				return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, rcvBuf)
			}, Listener{Addr: netip.IPv4Unspecified(), RcvBuf: 2 * rcvBuf}}, // the kernel doubles it
		} {
			if c.mptcp && !mptcpEnabled() {
				t.Log("MPTCP is off in this kernel: its listeners are not tested")
				continue
			}
			l, port, err := listen(c.network, c.addr, c.mptcp, c.control)
			if err != nil {
				return err
			}
			defer l.Close()
			c.want.Port = port
			want[port] = c.want
		}
		return compare(want)
	})
}

func compare(want map[uint16]Listener) error {
	got, err := Scan()
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("found %d listeners, want %d: %v", len(got), len(want), got)
	}
	for _, g := range got {
		w := want[g.Port]
		if g.Addr != w.Addr || g.V6Only != w.V6Only || g.MPTCP != w.MPTCP {
			return fmt.Errorf("got %+v, want %+v", g, w)
		}
		if g.RcvBuf <= 0 || w.RcvBuf != 0 && g.RcvBuf != w.RcvBuf {
			return fmt.Errorf("%v: RcvBuf %d, want %d", g, g.RcvBuf, w.RcvBuf)
		}
	}
	return nil
}

func TestParseTruncated(t *testing.T) {
	for n := range messageLen {
		if _, err := parse(make([]byte, n)); err == nil {
			t.Errorf("%d bytes accepted", n)
		}
	}
}
