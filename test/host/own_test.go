// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net"
	"net/netip"
	"testing"

	"tidegate/internal/lab/load"
)

// SYNs that the kernel would not take for its own are not answered: the kernel drops them, or
// gives them to whom they are for.
func TestFramesOfOthers(t *testing.T) {
	const n = 20
	w := newWorld(t)
	w.echoServer(webPort)
	w.ip(w.Server, "address add 198.18.3.9/32 dev lo")
	w.start(w.webConfig(webPort))
	foreign := net.HardwareAddr{2, 0, 0, 0xbe, 0xef, 1}
	for name, c := range map[string]struct {
		v4, v6 bool
		spoil  func(f *load.Frame)
	}{
		"foreign MAC":            {true, true, func(f *load.Frame) { f.To = foreign }},
		"group source MAC":       {true, true, func(f *load.Frame) { f.From = net.HardwareAddr{1, 0, 0x5e, 0, 0, 1} }},
		"broadcast source MAC":   {true, true, func(f *load.Frame) { f.From = net.HardwareAddr{255, 255, 255, 255, 255, 255} }},
		"not a local address":    {true, false, func(f *load.Frame) { f.Dst = to("198.18.3.77") }},
		"not a local address v6": {false, true, func(f *load.Frame) { f.Dst = to("fd7d:7467:4::77") }},
		"subnet's broadcast":     {true, false, func(f *load.Frame) { f.Dst = to("198.18.3.255") }},
		"same slot as our own":   {true, false, func(f *load.Frame) { f.Dst = to("198.18.9.1") }},
		"127.0.0.1":              {true, false, func(f *load.Frame) { f.Dst = to("127.0.0.1") }},
		"127.8.8.8":              {true, false, func(f *load.Frame) { f.Dst = to("127.8.8.8") }},
		"::1":                    {false, true, func(f *load.Frame) { f.Dst = to("::1") }},
		"own address as source": {true, true, func(f *load.Frame) {
			f.Src = netip.AddrPortFrom(f.Dst.Addr(), 4000)
		}},
		"another own address as source": {true, false, func(f *load.Frame) { f.Src = netip.AddrPortFrom(netip.MustParseAddr("198.18.3.9"), 4000) }},
		"on the slow path":              {true, true, func(f *load.Frame) { f.To, f.Payload = foreign, []byte("data") }},
	} {
		for _, ipv6 := range families() {
			if ipv6 && !c.v6 || !ipv6 && !c.v4 {
				continue
			}
			var frames []*load.Frame
			for i := range n {
				f := w.syn(ipv6, uint16(2000+i))
				c.spoil(f)
				frames = append(frames, f)
			}
			if got := w.answers(frames...); got != 0 {
				t.Errorf("%s, %s: %d of %d answered", familyName(ipv6), name, got, n)
			}
		}
	}
	if c := w.counters(); c["pass_frame"] == 0 || c["drop_source"] == 0 {
		t.Errorf("counted: %v", c)
	}
	w.mustPingNew(1)
}

func to(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), webPort) }
