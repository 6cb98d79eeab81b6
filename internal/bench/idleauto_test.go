// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"tidegate/internal/bpfcount"
	"tidegate/internal/plane"
	"tidegate/internal/plane/hostbpf"
)

// What a host in mode auto does for a packet while nothing attacks: a SYN is counted, what belongs to connections passes. The time above
// an empty XDP program, of runs in turn, is logged and not judged: the machine is shared.
func TestInstructionsOfIdleAuto(t *testing.T) {
	gate := hostGate(t)
	entry, err := gate.Service(1)
	if err != nil {
		t.Fatal(err)
	}
	entry.Automatic, entry.Mode, entry.Verify = 1, plane.ModeAuto, 0
	if err := gate.SetService(1, entry); err != nil {
		t.Fatal(err)
	}
	xdp, tc := gate.Programs()
	maps := bpfcount.MapsOf(t, xdp)
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	host, err := hostbpf.LoadHostXdp()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		most  int
	}{
		{"ACK v4-ts", ackFrameOf("v4-ts", nil), 41}, {"ACK v6-ts", ackFrameOf("v6-ts", nil), 47},
		{"SYN v4-ts", synFrame("v4-ts", nil), 163}, {"SYN v6-ts", synFrame("v6-ts", nil), 164},
	} {
		res, err := bpfcount.XDP(host.Programs[hostbpf.HostXdpProgTgHostXdp], maps, c.frame, 1)
		if err != nil {
			t.Fatal(err)
		}
		if res.Action != 2 {
			t.Fatalf("%s: action %d, want XDP_PASS", c.name, res.Action)
		}
		within(t, "idle auto, "+c.name, res, c.most)
		var above []time.Duration
		for range 9 {
			above = append(above, runs(t, xdp, c.frame)-runs(t, empty, c.frame))
		}
		slices.Sort(above)
		t.Logf("%s: %v above an empty XDP program (%v to %v)", c.name, above[4], above[0], above[8])
	}
	spec, err := hostbpf.LoadHostTc()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"v4-ts", "v6-ts"} {
		res, err := bpfcount.TC(spec.Programs[hostbpf.HostTcProgTgHostTc], bpfcount.MapsOf(t, tc), ackFrameOf(kind, nil), 1)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "idle auto, TC, ACK "+kind, res, 89)
	}
}

// runs is the time of one of 200,000 runs.
func runs(t *testing.T, prog *ebpf.Program, frame []byte) time.Duration {
	t.Helper()
	_, each, err := prog.Benchmark(frame, 200_000, nil)
	if err != nil {
		t.Fatal(err)
	}
	return each
}
