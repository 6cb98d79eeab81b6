// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bufio"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/plane"
)

func TestServiceLines(t *testing.T) {
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	got := ServiceLines([]plane.Target{
		{ID: 1, Ports: [][2]uint16{{80, 81}}, Prefixes: all, Service: plane.Service{MssV4: 1460, MssV6: 1440, Window: 9, Wscale: 7, Mode: 2}},
		{ID: 2, Ports: [][2]uint16{{80, 80}}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}, map[uint32]How{1: {Strategy: 5, FirstData: 1, Fixed: 3}})
	for _, want := range []string{
		"clear",
		"service 1 1460 1440 9 7 0 0 0 2 5 1 3 0 0 0 0",
		"prefix 4 24 c0000200000000000000000000000000 80 2",
		"port 80 2147483649", // service 1, and some prefixes have one of their own
		"port 81 1",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if got[0] != "clear" {
		t.Errorf("begins with %q", got[0])
	}
}

func TestRouteLines(t *testing.T) {
	got := append(RouteLines([]Route{
		{Kind: RouteMAC, Prefix: netip.MustParsePrefix("198.51.100.0/24"), Port: 1, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 17}},
		{Kind: RouteGateway, Prefix: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("fe80::9")},
		{Kind: RouteOnLink, Prefix: netip.MustParsePrefix("2001:db8::/64"), Port: 2},
		{Kind: RouteLocal, Prefix: netip.MustParsePrefix("203.0.113.2/32")},
	}), NeighbourLine(Neighbour{netip.MustParseAddr("203.0.113.9"), 1}, make(net.HardwareAddr, 6)))
	want := []string{
		"route 4 24 c6336400000000000000000000000000 1 020000000011",
		"gateway 4 0 00000000000000000000000000000000 0 6 fe800000000000000000000000000009",
		"onlink 6 64 20010db8000000000000000000000000 2",
		"local 4 32 cb007102000000000000000000000000",
		"neighbour 4 cb007109000000000000000000000000 1 000000000000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLinkLines(t *testing.T) {
	got := LinkLines([]Link{
		{Port: 0, MTU: 1500, IPv4: netip.MustParseAddr("203.0.113.2")},
		{Port: 1, MTU: 1280, IPv6: netip.MustParseAddr("2001:db8::2")},
	})
	want := []string{
		"link 0 1500 cb007102 00000000000000000000000000000000",
		"link 1 1280 00000000 20010db8000000000000000000000002",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestApplyTellsRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch lines.Text() {
			case "good":
			case "commit":
				if _, err := conn.Write([]byte("unresolved 4 c6120402 2 gateway\nok\nunresolved 6 20010db8000000000000000000000009 1 host\n")); err != nil {
					return
				}
			default:
				_, _ = conn.Write([]byte("error: line 1: bad\n"))
				return
			}
		}
	}()
	c, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Apply([]string{"good"}); err != nil {
		t.Error(err)
	}
	for _, want := range []Unresolved{
		{Neighbour{netip.MustParseAddr("198.18.4.2"), 2}, false}, {Neighbour{netip.MustParseAddr("2001:db8::9"), 1}, true},
	} {
		if got := <-c.Unresolved; got != want {
			t.Errorf("asked for %v, want %v", got, want)
		}
	}
	if err := c.Apply([]string{"bad"}); err == nil || !strings.Contains(err.Error(), "line 1: bad") {
		t.Errorf("got %v", err)
	}
}
