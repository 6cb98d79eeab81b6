// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"testing"

	"tidegate/internal/bpfcount"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
)

// ACKs with other options than NOP, NOP, timestamps: who attacks chooses them.
var unusualACKs = []struct {
	what, options string
	calls         int // at most; an ACK with usual options has none
}{
	{"selective acknowledgement", "0101050a0000000100000002", 4},
	{"timestamps first", "080a0011223300000000" + "0101", 4},
	{"timestamps across words", "01080a0011223300000000" + "00", 4},
	{"40 bytes of NOP", "01010101010101010101010101010101010101010101010101010101010101010101010101010101", 5},
	{"20 options", "fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02fd02", 6},
	{"NOPs that begin no word", "fd0301" + "01010101010101010101010101010101010101010101010101010101010101010101010101", 8},
	{"a length beyond the end", "fd280000", 4},
}

// A flood of ACKs costs little more for its options: neither the edge nor a server's final check leaves its fast path for them.
func TestInstructionsOfOtherACKs(t *testing.T) {
	needRoot(t)
	type gate struct {
		name   string
		run    func([]byte) (*bpfcount.Result, error)
		drop   int
		mac    []byte
		v4, v6 int // instructions, at most
	}
	check := func(g gate) {
		dropped := func(what string, frame []byte) *bpfcount.Result {
			t.Helper()
			res, err := g.run(frame)
			if err != nil {
				t.Fatal(err)
			}
			if int(res.Action) != g.drop {
				t.Fatalf("%s, %s: action %d, want %d", g.name, what, int32(res.Action), g.drop)
			}
			return res
		}
		for family, most := range map[string]int{"v4": g.v4, "v6": g.v6} {
			for _, ack := range unusualACKs {
				what := family + ", " + ack.what
				res := dropped(what, ackWithOptions(ackFrameOf(family, g.mac), ack.options))
				within(t, g.name+", "+what, res, most)
				calls(t, g.name+", "+what, res, ack.calls)
			}
			// The canary: with a VLAN tag it takes the slow path, and the count must show it.
			frame := ackWithOptions(ackFrameOf(family, g.mac), unusualACKs[1].options)
			fast := dropped("its canary without a tag", frame)
			slow := dropped("with a VLAN tag", slices.Concat(frame[:12], []byte{0x81, 0, 0, 7}, frame[12:]))
			if slow.Instructions <= fast.Instructions+100 {
				t.Errorf("%s, %s: %d instructions with a VLAN tag, %d without; the canary wants 100 more", g.name, family, slow.Instructions, fast.Instructions)
			}
		}
	}
	final, err := newFinalCheck()
	if err != nil {
		t.Fatal(err)
	}
	defer final.Close()
	_, tc := final.Programs()
	maps := bpfcount.MapsOf(t, tc)
	spec, err := hostbpf.LoadHostTc()
	if err != nil {
		t.Fatal(err)
	}
	check(gate{name: "final check", drop: 2, v4: 1704, v6: 1883, run: func(frame []byte) (*bpfcount.Result, error) {
		if err := rememberEpoch(maps); err != nil {
			return nil, err
		}
		return bpfcount.TC(spec.Programs[hostbpf.HostTcProgTgHostTc], maps, frame, 1)
	}})
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	if _, err := runProxyParts(context.Background(), opt, []part{{what: "instructions", run: func(b *proxyBench) error {
		b.everywhere = true
		e, err := b.edgeBench().newEdge([2]uint32{})
		if err != nil {
			return err
		}
		defer e.Close()
		prog, _ := e.Programs()
		maps := bpfcount.MapsOf(t, prog)
		spec, err := edgebpf.LoadEdgeXdp()
		if err != nil {
			return err
		}
		check(gate{name: "edge", drop: 1, mac: b.box.FloodPort.MAC, v4: 1666, v6: 1876, run: func(frame []byte) (*bpfcount.Result, error) {
			if err := rememberEpoch(maps); err != nil {
				return nil, err
			}
			return bpfcount.XDP(spec.Programs[edgebpf.EdgeXdpProgTgEdgeXdp], maps, frame, uint32(b.box.FloodPort.Index))
		}})
		return nil
	}}}); err != nil {
		t.Fatal(err)
	}
}
