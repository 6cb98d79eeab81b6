// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/bpfcount"
	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/plane/edgebpf"
	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/proxybpf"
)

// spent counts the instructions of one answered SYN.
func spent(t *testing.T, load func() (*ebpf.CollectionSpec, error), name string, maps map[string]*ebpf.Map, frame []byte, ifindex int) *bpfcount.Result {
	t.Helper()
	spec, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if err := rememberEpoch(maps); err != nil {
		t.Fatal(err)
	}
	res, err := bpfcount.XDP(spec.Programs[name], maps, frame, uint32(ifindex))
	if err != nil {
		t.Fatal(err)
	}
	if res.Action != 3 { // XDP_TX
		t.Fatalf("the SYN was not answered: action %d", res.Action)
	}
	return res
}

func within(t *testing.T, what string, res *bpfcount.Result, most int) {
	t.Helper()
	t.Logf("%s: %d instructions", what, res.Instructions)
	if res.Instructions > most {
		t.Errorf("%s: %d instructions, at most %d wanted; the costliest lines:\n%s", what, res.Instructions, most, res.Costliest(15))
	}
}

// firstWithin judges what the first packet for a server costs on a CPU that has kept no state of its hash. A flood to many servers consists of such packets.
func firstWithin(t *testing.T, what string, res *bpfcount.Result) {
	t.Helper()
	const most = 260 // the look-ups of service and key, the rounds of two words, 128 instructions, and what keeps all that
	t.Logf("%s: %d instructions of the first packet", what, res.First)
	if more := res.First - res.Instructions; more < 64 || more > most {
		t.Errorf("%s: the first packet takes %d instructions more than the next, 64 to %d wanted", what, more, most)
	}
}

// calls judges how many calls remain in machine code. Where returns are guarded against speculation, one takes as long as a hundred instructions.
func calls(t *testing.T, what string, res *bpfcount.Result, most int) {
	t.Helper()
	if res.Returns > most {
		t.Errorf("%s: %d calls, at most %d wanted: %v", what, res.Returns, most, res.Calls)
	}
}

// hostGate is a gate of role host, for the length of a test.
func hostGate(t *testing.T) *plane.Plane {
	t.Helper()
	needRoot(t)
	gate, err := newGate(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	return gate
}

// onlyOwn makes the gate check whether a SYN is for this machine, as on any host: one address of each family, the
// MAC address that synFrame sends to, and the interface of test runs.
func onlyOwn(t *testing.T, gate *plane.Plane) {
	t.Helper()
	if err := ownsAddresses(gate, testPort); err != nil {
		t.Fatal(err)
	}
}

// halfOpenRateIsUsedUp leaves no more SYNs to the kernel for an hour, at that cost; 0: there is no such rate.
func halfOpenRateIsUsedUp(t *testing.T, gate *plane.Plane, cost uint64) {
	t.Helper()
	var s plane.Settings
	settings := gate.Map(plane.VarSettings)
	if err := settings.Lookup(uint32(0), &s); err != nil {
		t.Fatal(err)
	}
	s.HalfOpenCostNs, s.HalfOpenNextNs = cost, uint64(plane.MonotonicNs()+int64(time.Hour))
	if err := settings.Put(uint32(0), &s); err != nil {
		t.Fatal(err)
	}
}

// A common SYN takes the fast path through the host gate, and is answered there as in the kernel.
func TestInstructionsOfHost(t *testing.T) {
	gate := hostGate(t)
	onlyOwn(t, gate)
	prog, _ := gate.Programs()
	maps := bpfcount.MapsOf(t, prog)
	for kind, most := range map[string]int{"v4-ts": 741, "v4": 734, "v6-ts": 895, "v6": 894} {
		frame := synFrame(kind, nil)
		res := spent(t, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, maps, frame, 1)
		within(t, "host "+kind, res, most)
		firstWithin(t, "host "+kind, res)
		calls(t, "host "+kind, res, 0)
		halfOpenRateIsUsedUp(t, gate, 10_000_000)
		used := spent(t, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, maps, frame, 1)
		within(t, "host "+kind+", half_open_rate used up", used, res.Instructions+18)
		calls(t, "host "+kind+", half_open_rate used up", used, 0)
		halfOpenRateIsUsedUp(t, gate, 0)
		if !kernelAnswers(t, prog, frame, res.Frame) {
			t.Errorf("%s: the kernel's answer is not %x", kind, res.Frame)
		}
		// The canary: a SYN that requests ECN takes the slow path, and the count must show it.
		frame[len(frame)-map[bool]int{true: 27, false: 19}[kind[2:] == "-ts"]] |= 0xc0
		putSums(frame)
		if long := spent(t, hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, maps, frame, 1); long.Instructions <= most {
			t.Errorf("%s with ECN: %d instructions; the canary wants more than %d", kind, long.Instructions, most)
		}
	}
}

// kernelAnswers reports whether the kernel's run leaves these bytes; it retries in case an epoch ended.
func kernelAnswers(t *testing.T, prog *ebpf.Program, frame, want []byte) bool {
	t.Helper()
	_, out, err := prog.Test(slices.Clone(frame))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(out, want)
}

// fillCache gives every place of a SYN cache to a client that has just come.
func fillCache(cache *ebpf.Map) error {
	const places = 8
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	bucket := make([]byte, cache.ValueSize())
	for i := range places { // core/syn_cache.h: a tag that no SYN of the test has, sent once, the tick
		binary.LittleEndian.PutUint64(bucket[8*i:], uint64(0xabcdef0+i)<<36|1<<32|uint64(uint32(now.Nano()>>20)))
	}
	for i := range cache.MaxEntries() {
		if err := cache.Put(i, bucket); err != nil {
			return err
		}
	}
	return nil
}

// noteFull notes in front of every bucket that it is full, core/syn_cache_front.h.
func noteFull(maps map[string]*ebpf.Map) error {
	const life = 15 * 954
	var s plane.Settings
	if err := maps[plane.VarSettings].Lookup(uint32(0), &s); err != nil {
		return err
	}
	fronts := maps[proxybpf.ProxyXdpMapTgHalfFronts]
	until := uint32(plane.MonotonicNs()>>20) + life
	for i := range fronts.MaxEntries() {
		if err := fronts.Put(i, [2]uint64{0, uint64(until)<<32 | s.EpochNear&0xffff | 0x8000}); err != nil {
			return err
		}
	}
	return nil
}

// The same through the proxy, strategy by strategy, and through the edge.
func TestInstructionsOfProxyAndEdge(t *testing.T) {
	needRoot(t)
	most := map[config.Strategy]int{"cookie": 758, "auth-cookie": 721, "auth-full": 545, "auth-wrong": 543, "auth-ttl": 544, "cache": 1054}
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	_, err := runProxyParts(context.Background(), opt, []part{{what: "instructions", run: func(b *proxyBench) error {
		b.everywhere = true
		frame := synFrame("v4-ts", b.box.FloodPort.MAC)
		for _, strategy := range config.Strategies() {
			p, err := b.newProxy(strategy, 1<<12)
			if err != nil {
				return err
			}
			defer p.Close()
			prog, _ := p.Programs()
			res := spent(t, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, bpfcount.MapsOf(t, prog), frame, b.box.FloodPort.Index)
			within(t, string(strategy), res, most[strategy])
			switch strategy {
			case config.StrategyCookie, config.StrategyAuthCookie:
				calls(t, string(strategy), res, 0)
			case config.StrategyAuthFull, config.StrategyAuthWrong, config.StrategyAuthTTL:
				calls(t, string(strategy), res, 1) // the frame becomes shorter
			}
			if strategy == "cache" {
				if err := fillCache(p.Map(proxybpf.ProxyXdpMapTgHalfopens)); err != nil {
					return err
				}
				maps := bpfcount.MapsOf(t, prog)
				within(t, "cache, the first to find its bucket full", spent(t, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, maps, frame,
					b.box.FloodPort.Index), 1415)
				if err := noteFull(maps); err != nil {
					return err
				}
				full := spent(t, proxybpf.LoadProxyXdp, proxybpf.ProxyXdpProgTgProxyXdp, maps, frame, b.box.FloodPort.Index)
				within(t, "cache, full", full, 838)
				calls(t, "cache, full", full, 0)
			}
		}
		// Without timestamps the flow is looked up in the filter, too (tg_edge_syn_is_known); with `challenge: all` always.
		for challengeAll, ceilings := range map[bool]map[string]int{
			false: {"v4-ts": 691, "v4": 748, "v6-ts": 810, "v6": 927},
			true:  {"v4-ts": 762, "v4": 748, "v6-ts": 938, "v6": 927},
		} {
			e, err := (&edgeBench{ctx: b.ctx, opt: b.opt, rig: b.rig, box: b.box, everywhere: b.everywhere, challengeAll: challengeAll}).newEdge([2]uint32{})
			if err != nil {
				return err
			}
			defer e.Close()
			prog, _ := e.Programs()
			for kind, most := range ceilings {
				what := fmt.Sprintf("edge %s, challenge all %v", kind, challengeAll)
				res := spent(t, edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, bpfcount.MapsOf(t, prog), synFrame(kind, b.box.FloodPort.MAC), b.box.FloodPort.Index)
				within(t, what, res, most)
				firstWithin(t, what, res)
				calls(t, what, res, 1)
			}
			if err := edgeACKs(t, bpfcount.MapsOf(t, prog), b.box.FloodPort); err != nil {
				return err
			}
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// edgeACKs measures a packet of an ACK flood, which is dropped at the edge.
func edgeACKs(t *testing.T, maps map[string]*ebpf.Map, port *rig.Port) error {
	t.Helper()
	spec, err := edgebpf.LoadEdgeXdp()
	if err != nil {
		return err
	}
	for kind, most := range map[string]int{"v4-ts": 606, "v4": 584, "v6-ts": 814, "v6": 791} {
		frame := ackFrameOf(kind, port.MAC)
		if err := rememberEpoch(maps); err != nil {
			return err
		}
		res, err := bpfcount.XDP(spec.Programs[edgebpf.EdgeXdpProgTgEdgeXdp], maps, frame, uint32(port.Index))
		if err != nil {
			return err
		}
		if res.Action != 1 { // XDP_DROP
			t.Fatalf("%s: the ACK was not dropped: action %d", kind, res.Action)
		}
		within(t, "edge, ACK "+kind, res, most)
		firstWithin(t, "edge, ACK "+kind, res)
		calls(t, "edge, ACK "+kind, res, 0)
		// The canary: with a VLAN tag it takes the slow path, and the count must show it.
		tagged := append(append(slices.Clone(frame[:12]), 0x81, 0, 0, 7), frame[12:]...)
		long, err := bpfcount.XDP(spec.Programs[edgebpf.EdgeXdpProgTgEdgeXdp], maps, tagged, uint32(port.Index))
		if err != nil {
			return err
		}
		if long.Action != 1 || long.Instructions <= most {
			t.Errorf("%s with a VLAN tag: action %d, %d instructions; the canary wants more than %d", kind, long.Action, long.Instructions, most)
		}
	}
	return nil
}

// What the server's final ACK check drops, and what it passes of a live connection.
func TestInstructionsOfFinalCheck(t *testing.T) {
	needRoot(t)
	gate, err := newFinalCheck()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	_, tc := gate.Programs()
	maps := bpfcount.MapsOf(t, tc)
	spec, err := hostbpf.LoadHostTc()
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string, frame []byte, action int32, most int) int {
		if err := rememberEpoch(maps); err != nil {
			t.Fatal(err)
		}
		res, err := bpfcount.TC(spec.Programs[hostbpf.HostTcProgTgHostTc], maps, frame, 1)
		if err != nil {
			t.Fatal(err)
		}
		if int32(res.Action) != action {
			t.Fatalf("%s: action %d, want %d", what, int32(res.Action), action)
		}
		within(t, what, res, most)
		if most < 1000 { // not a canary
			calls(t, what, res, 0)
		}
		return res.Instructions
	}
	ceilings := map[string]int{"v4-ts": 620, "v4": 595, "v6-ts": 802, "v6": 777}
	for kind, most := range ceilings {
		frame := ackFrameOf(kind, nil)
		count("final ACK check, ACK "+kind, frame, 2, most) // TCX_DROP
		tagged := append(append(slices.Clone(frame[:12]), 0x81, 0, 0, 7), frame[12:]...)
		if long := count("its canary "+kind, tagged, 2, 10*most); long <= most {
			t.Errorf("%s with a VLAN tag: %d instructions; the canary wants more than %d", kind, long, most)
		}
	}
	// A SYN that goes on to the kernel may be answered with a cookie of the kernel's: from now on that is asked.
	ack := ackFrameOf("v4-ts", nil)
	syn := slices.Clone(ack)
	syn[47] = 0x02                             // the SYN of the same tuple
	noted := func(ahead uint64) func() error { // the SYN's tick, so many ticks ahead of what the ACK's program remembers
		return func() error {
			if _, err := tc.Run(&ebpf.RunOptions{Data: syn}); err != nil {
				return err
			}
			var cell uint32
			var tick uint64
			syns := maps["tg_kernel_syns"]
			for i := syns.Iterate(); i.Next(&cell, &tick); {
				if tick != 0 {
					return syns.Put(cell, tick+ahead)
				}
			}
			return errors.New("the SYN was not noted")
		}
	}
	for _, c := range []struct {
		asks  int
		first func() error
	}{{0, func() error { return nil }}, {1, noted(0)}, {1, noted(1)}, {0, noted(8)}, {0, gate.ForgetKernelSYNs}} {
		if err := c.first(); err != nil {
			t.Fatal(err)
		}
		res, err := bpfcount.TC(spec.Programs[hostbpf.HostTcProgTgHostTc], maps, ack, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n := res.Calls["FnTcpRawCheckSyncookieIpv4"]; n != c.asks {
			t.Errorf("the kernel was asked %d times for its cookie, want %d: %v", n, c.asks, res.Calls)
		}
	}
	if err := fillSocketFilter(gate); err != nil {
		t.Fatal(err)
	}
	for kind, most := range ceilings {
		count("live connection, ACK "+kind, ackFrameOf(kind, nil), -1, most) // TCX_NEXT
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it loads BPF programs")
	}
}

// Paths that no other test has: segments of live connections at a host and through the proxy, and the steps of a new connection.
func TestInstructionsOfSegments(t *testing.T) {
	needRoot(t)
	opt := DefaultOptions()
	opt.Progress = func(string, ...any) {}
	s := &speedBench{res: &SpeedResult{}}
	if _, err := runProxyParts(context.Background(), opt, []part{{what: "instructions", run: func(b *proxyBench) error {
		b.everywhere = true
		s.proxyBench = b
		return errors.Join(s.countHost(), s.countKnown(), s.countSegments(), s.countSetup())
	}}}); err != nil {
		t.Fatal(err)
	}
	ceilings := map[string]int{
		pathHostXDP + ", v4-ts": 41, pathHostXDP + ", v4": 41, pathHostXDP + ", v6-ts": 47, pathHostXDP + ", v6": 47,
		pathHostTC + ", v4-ts": 116, pathHostTC + ", v4": 116, pathHostTC + ", v6-ts": 154, pathHostTC + ", v6": 154,
		pathEdgeKnown + ", v4-ts, bridge": 327, pathTranslated + ", v4-ts, bridge": 198, pathForwarded + ", v4-ts, bridge": 122,
		pathSetupACK + ", v4, bridge": 1908, pathSetupTC + ", v4, bridge": 926, pathSetupLeft + ", v4, bridge": 284, pathSetupDefer + ", v4, bridge": 794,
		pathSetupSYNACK + ", v4, bridge": 938, pathSetupTwin + ", v4, bridge": 190,
	}
	for _, p := range s.res.Paths {
		name := p.Path + ", " + p.Frame
		most, judged := ceilings[name]
		if !judged {
			continue
		}
		delete(ceilings, name)
		if most, judged := map[string]int{pathEdgeKnown: 1, pathTranslated: 1, pathForwarded: 1, pathSetupACK: 15, pathSetupTC: 10, pathSetupLeft: 2, pathSetupDefer: 8, pathSetupSYNACK: 10, pathSetupTwin: 0}[p.Path]; judged {
			calls(t, name, p.counted, most)
		}
		t.Logf("%s: %d instructions, %d helpers, %d calls", name, p.Instructions, p.Helpers, p.Calls)
		if p.counted.First > 0 {
			t.Logf("%s: %d instructions of the first packet", name, p.counted.First)
		}
		if p.Instructions > most {
			t.Errorf("%s: %d instructions, at most %d wanted", name, p.Instructions, most)
		}
	}
	for name := range ceilings {
		t.Errorf("%s was not counted", name)
	}
}
