// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/bpfcount"
)

// SYNCounts are the BPF instructions of a SYN with timestamps over IPv4, the same in every run and on every machine.
type SYNCounts struct {
	SipHash  int            // SipHash-2-4 of 16 bytes
	Reflect  int            // the plain reflection of the same frame
	Strategy map[string]int // answered by the proxy
	Helpers  map[string]int // functions of the kernel that it calls for that, each counted as one instruction
}

// RunSYNCounts counts what a SYN costs with each strategy of the proxy. Nothing is timed, so other work on the machine does not matter.
func RunSYNCounts(ctx context.Context, opt Options) (*SYNCounts, error) {
	s, c := &speedBench{res: &SpeedResult{}}, &SYNCounts{Strategy: map[string]int{}, Helpers: map[string]int{}}
	count := func(b *proxyBench) error {
		s.proxyBench = b
		if err := s.countProxySYNs(); err != nil {
			return err
		}
		spec, err := benchbpf.LoadBench()
		if err != nil {
			return err
		}
		frame := synFrame("v4-ts", b.box.FloodPort.MAC)
		reflected, err := bpfcount.XDP(spec.Programs[benchbpf.BenchProgTgBenchReflect], nil, frame, uint32(b.box.FloodPort.Index))
		if err != nil {
			return fmt.Errorf("reflection: %w", err)
		}
		if reflected.Action != xdpTx {
			return fmt.Errorf("reflection: the program returned %d, want %d", reflected.Action, xdpTx)
		}
		hashed, err := bpfcount.TC(spec.Programs[benchbpf.BenchProgTgBenchHash], nil, frame, uint32(b.box.FloodPort.Index))
		if err != nil {
			return fmt.Errorf("SipHash: %w", err)
		}
		c.Reflect, c.SipHash = reflected.Instructions, hashed.Instructions/hashesPerRun
		return nil
	}
	if _, err := runProxyParts(ctx, opt, []part{{what: "instructions of a SYN, strategy by strategy", run: count}}); err != nil {
		return nil, err
	}
	for _, p := range s.res.Paths {
		name := p.Path[len(pathProxySYN):]
		c.Strategy[name], c.Helpers[name] = p.Instructions, p.Helpers
	}
	return c, nil
}
