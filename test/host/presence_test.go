// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"net/netip"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// listenAt serves echo on one address; v6only is the socket option of IPv6.
func (w *world) listenAt(at netip.AddrPort, v6only bool) *listener {
	w.t.Helper()
	fd, err := socket(w.Server, at.Addr().Is6(), unix.IPPROTO_TCP)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = newConn(fd)
	if at.Addr().Is6() && v6only {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	}
	err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, sockaddr(at)), unix.Listen(fd, 16))
	if err != nil {
		unix.Close(fd)
		w.t.Fatal(err)
	}
	l := &listener{fd: fd}
	w.t.Cleanup(l.close)
	l.serve(echo)
	return l
}

// second is another address of the server.
var second = netip.MustParseAddr("198.18.3.9")

func (w *world) addSecond() {
	w.t.Helper()
	if err := w.Server.Do(func() error {
		return exec.Command("ip", "address", "add", second.String()+"/32", "dev", "tg-server").Run()
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dialAt(a netip.Addr) error {
	c, err := dialer{from: w.Client, to: netip.AddrPortFrom(a, webPort)}.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ping()
}

// Where the kernel refuses, the gate lets it: by family and by address. Where there is a
// listener, it answers.
func TestRefusedWhereNobodyListens(t *testing.T) {
	any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	for name, tc := range map[string]struct {
		at      func(w *world) netip.Addr
		v6only  bool
		v4, alt bool // who is served: IPv4, its second address
		v6      bool
	}{
		"IPv4 only":    {at: func(*world) netip.Addr { return any4 }, v4: true, alt: true},
		"IPv6 only":    {at: func(*world) netip.Addr { return any6 }, v6only: true, v6: true},
		"both":         {at: func(*world) netip.Addr { return any6 }, v4: true, alt: true, v6: true},
		"one address":  {at: func(w *world) netip.Addr { return w.ServerAddr(false) }, v4: true},
		"the other":    {at: func(*world) netip.Addr { return second }, alt: true},
		"one of IPv6":  {at: func(w *world) netip.Addr { return w.ServerAddr(true) }, v6only: true, v6: true},
		"mapped, IPv4": {at: func(*world) netip.Addr { return netip.MustParseAddr("::ffff:198.18.3.9") }, alt: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !rig.HaveIPv6() {
				t.Skip("this kernel has no IPv6")
			}
			w := newWorld(t)
			w.addSecond()
			w.listenAt(netip.AddrPortFrom(tc.at(w), webPort), tc.v6only)
			w.start(w.webConfig(webPort))
			served := uint64(0)
			for _, c := range []struct {
				a    netip.Addr
				want bool
			}{{w.ServerAddr(false), tc.v4}, {second, tc.alt}, {w.ServerAddr(true), tc.v6}} {
				err := w.dialAt(c.a)
				switch {
				case c.want && err != nil:
					t.Errorf("%s: %v", c.a, err)
				case !c.want && !errors.Is(err, unix.ECONNREFUSED):
					t.Errorf("%s: %v, want a refusal", c.a, err)
				case c.want:
					served++
				}
			}
			w.wantCounters(map[string]uint64{"adopted": served, "cookie_sent": served, "pass_listener": 3 - served})
		})
	}
}
