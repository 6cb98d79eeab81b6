// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/bpfcount"
	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/proxybpf"
)

// SYNs with other options than Linux and Windows send: who attacks chooses them.
var otherSYNs = []struct {
	what    string
	flags   byte
	options string
}{
	{"bare", 0x02, ""}, // most tools
	{"MSS", 0x02, "020405b4"},
	{"macOS", 0x02, "020405b4010303060101080a001122330000000004020000"},
	{"FreeBSD", 0x02, "020405b4010303060402080a0011223300000000"},
	{"ECN", 0xc2, "020405b40402080a00112233000000000103030a"},
	{"40 bytes of NOP", 0x02, "01010101010101010101010101010101010101010101010101010101010101010101010101010101"},
}

// None of these costs much more than a common one, and calls little. What takes an answer of another length calls for that.
func TestInstructionsOfOtherSYNs(t *testing.T) {
	needRoot(t)
	type gate struct {
		name        string
		maps        map[string]*ebpf.Map
		load        func() (*ebpf.CollectionSpec, error)
		prog        string
		port        *rig.Port
		v4, v6      int // at most
		most, parse int // calls of a SYN whose options are read as words; instructions of one whose are not
	}
	check := func(g gate) {
		mac, index := []byte(nil), 1
		if g.port != nil {
			mac, index = g.port.MAC, g.port.Index
		}
		for _, v6 := range []bool{false, true} {
			most := map[bool]int{false: g.v4, true: g.v6}[v6]
			for _, syn := range otherSYNs {
				res := spent(t, g.load, g.prog, g.maps, optionSYN(v6, syn.flags, syn.options, mac), index)
				within(t, g.name+", "+syn.what, res, most)
				if res.Returns > g.most {
					t.Errorf("%s, %s, IPv6 %v: %d calls, want at most %d: %v", g.name, syn.what, v6, res.Returns, g.most, res.Calls)
				}
			}
			// The canary: options that begin in no word are parsed one by one.
			odd := spent(t, g.load, g.prog, g.maps, optionSYN(v6, 0x02, "080a001122330000000004020204"+"05b4"+"03030501", mac), index)
			if odd.Returns <= g.most {
				t.Errorf("%s, IPv6 %v: an odd order of options calls %d functions; the canary wants more than %d", g.name, v6, odd.Returns, g.most)
			}
			within(t, g.name+", odd order", odd, g.parse)
			// Data are summed by calls, 512 bytes at a time, and change nothing else.
			for _, data := range []struct{ bytes, calls int }{{20, 4}, {1000, 8}} {
				syn := dataSYN(v6, "020405b4", data.bytes, mac)
				res := spent(t, g.load, g.prog, g.maps, syn, index)
				within(t, fmt.Sprintf("%s, %d bytes of data", g.name, data.bytes), res, most+data.calls*30)
				if res.Returns > g.most+data.calls {
					t.Errorf("%s, IPv6 %v, %d bytes of data: %d calls, want at most %d: %v", g.name, v6, data.bytes, res.Returns, g.most+data.calls, res.Calls)
				}
			}
			// A VLAN tag takes the slow path.
			frame := optionSYN(v6, 0x02, "020405b4", mac)
			tagged := slices.Concat(frame[:12], []byte{0x81, 0, 0, 7}, frame[12:])
			if slow := spent(t, g.load, g.prog, g.maps, tagged, index); slow.Returns <= odd.Returns {
				t.Errorf("%s, IPv6 %v: with a VLAN tag %d calls, want more than %d", g.name, v6, slow.Returns, odd.Returns)
			}
		}
	}
	host := hostGate(t)
	onlyOwn(t, host)
	xdp, _ := host.Programs()
	check(gate{name: "host", maps: bpfcount.MapsOf(t, xdp), load: hostbpf.LoadHostXdp, prog: hostbpf.HostXdpProgTgHostXdp, v4: 1426, v6: 1586, most: 2, parse: 1901})
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	_, err := runProxyParts(context.Background(), opt, []part{{what: "instructions", run: func(b *proxyBench) error {
		b.everywhere = true
		for strategy, most := range map[config.Strategy][3]int{config.StrategyCookie: {1570, 1716, 1984}, config.StrategyAuthCookie: {1461, 1591, 1865},
			config.StrategyAuthFull: {1269, 1320, 1577}} {
			p, err := b.newProxy(strategy, 1<<12)
			if err != nil {
				return err
			}
			defer p.Close()
			prog, _ := p.Programs()
			check(gate{name: "proxy, " + string(strategy), maps: bpfcount.MapsOf(t, prog), load: proxybpf.LoadProxyXdp, prog: proxybpf.ProxyXdpProgTgProxyXdp,
				port: b.box.FloodPort, v4: most[0], v6: most[1], most: 4, parse: most[2]})
		}
		e, err := b.edgeBench().newEdge([2]uint32{})
		if err != nil {
			return err
		}
		defer e.Close()
		prog, _ := e.Programs()
		check(gate{name: "edge", maps: bpfcount.MapsOf(t, prog), load: edgebpf.LoadEdgeXdp, prog: edgebpf.EdgeXdpProgTgEdgeXdp, port: b.box.FloodPort,
			v4: 1430, v6: 1610, most: 2, parse: 1878})
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// edgeBench is a bench of the edge in the same place, with `challenge: all`.
func (b *proxyBench) edgeBench() *edgeBench {
	return &edgeBench{ctx: b.ctx, opt: b.opt, rig: b.rig, box: b.box, everywhere: b.everywhere, challengeAll: true}
}
