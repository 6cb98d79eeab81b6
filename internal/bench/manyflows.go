// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// A translated segment costs what the caches have of its flow: the other figures are of one flow, these of many that send by chance. Each
// segment is a BPF_PROG_TEST_RUN of its own, between which the system call uses the caches, too; so the figures are comparable with each other only.

const (
	manySegments = 20_000 // of one turn
	mostFlows    = 1 << 18
)

// manyFlows are the numbers of flows that are measured.
var manyFlows = []int{1, 1 << 10, 1 << 12, 1 << 14, mostFlows}

func manyFlowsName(flows int) string { return fmt.Sprintf("translate_ns_of %d", flows) }

// nthFlow gives the frame another client, and its key. One of a hundred addresses has a thousand connections.
func nthFlow(frame []byte, n int) plane.FlowKey4 {
	binary.BigEndian.PutUint16(frame[26:], uint16(0x0a00|n>>10>>8))
	frame[28] = byte(n >> 10)
	binary.BigEndian.PutUint16(frame[34:], uint16(1024+n&1023))
	return flowKey(frame)
}

// measureManyFlows measures segments to the server of many flows, which send by chance.
func (b *proxyBench) measureManyFlows() error {
	for _, flows := range manyFlows {
		turn := b.manyFlowsTurn(flows)
		fresh := func() ([]*ebpf.Program, func(), error) {
			p, err := b.newBridge(config.StrategyCookie, mostFlows)
			if err != nil {
				return nil, nil, err
			}
			frame := b.segmentFrame(40000)
			var keys []plane.FlowKey4
			for n := range flows {
				keys = append(keys, nthFlow(frame, n))
			}
			if err := p.PutFlows4(keys, slices.Repeat([]plane.Flow{readyFlow()}, flows)); err != nil {
				p.Close()
				return nil, nil, err
			}
			xdp, _ := p.Programs()
			_, err = turn(xdp) // then the copies are off if there are too many flows, as a second later in a proxy
			if err := errors.Join(err, p.WatchNear(time.Now())); err != nil {
				p.Close()
				return nil, nil, err
			}
			return []*ebpf.Program{b.yard.TgBenchBridge, xdp}, func() { p.Close() }, nil
		}
		ns, err := inTurns(b.ctx, b.opt.Rounds, fresh, turn)
		if err != nil {
			return err
		}
		b.res.Spreads[manyFlowsName(flows)] = spread(differences(ns[1], ns[0]))
	}
	return nil
}

// manyFlowsTurn is the mean time of a segment of one of so many flows.
func (b *proxyBench) manyFlowsTurn(flows int) func(*ebpf.Program) (float64, error) {
	frame := b.segmentFrame(40000)
	ctx := make([]byte, 24) // struct xdp_md
	binary.LittleEndian.PutUint32(ctx[4:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(ctx[12:], uint32(b.box.LegitPort.Index))
	return func(prog *ebpf.Program) (mean float64, err error) {
		err = b.box.Proxy.Do(func() error {
			sum := uint64(0)
			for range manySegments {
				nthFlow(frame, rand.IntN(flows))
				ns, err := testRun(prog, frame, ctx, 1)
				if err != nil {
					return err
				}
				sum += uint64(ns)
			}
			mean = float64(sum) / manySegments
			return nil
		})
		return mean, err
	}
}

func (r *ProxyResult) printManyFlows(w io.Writer) {
	if _, there := r.Spreads[manyFlowsName(1)]; !there {
		return
	}
	fmt.Fprintln(w, "\nSEGMENT OF ONE OF SO MANY FLOWS\tns ABOVE A PLAIN XDP BRIDGE")
	for _, flows := range manyFlows {
		fmt.Fprintf(w, "%d\t%s\n", flows, r.Spreads[manyFlowsName(flows)])
	}
}
