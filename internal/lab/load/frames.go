// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Generator sends the frames of the caller's program out of a port, as Flood
// does with its own: live frames of BPF_PROG_TEST_RUN. The program rewrites every byte
// of each frame and returns XDP_TX.
type Generator struct {
	from *rig.Port
	prog *ebpf.Program
	cpu  int
	len  int
	hold io.Closer
}

// NewGenerator prepares a program that makes frames of at most frameLen bytes.
func NewGenerator(from *rig.Port, prog *ebpf.Program, cpu, frameLen int) (*Generator, error) {
	hold, err := holdDispatcher(from.NS, prog)
	if err != nil {
		return nil, err
	}
	return &Generator{from, prog, cpu, frameLen, hold}, nil
}

// Close removes the program.
func (g *Generator) Close() error { return g.hold.Close() }

// Run sends n frames at full speed and returns how long that took, including the work of their
// receivers, which runs in the sender's softirq.
func (g *Generator) Run(n int) (took time.Duration, err error) {
	err = g.from.NS.Do(func() error { // the thread is not ended: see Flood.onFloodThread
		return rig.WithAffinity(g.cpu, func() error {
			if err := g.from.Verify(); err != nil {
				return err
			}
			for left := n; left > 0; left -= batchMax {
				in := make([]byte, g.len)
				opts := ebpf.RunOptions{Data: in, Repeat: uint32(min(left, batchMax)), Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
					Context: xdpMD{DataEnd: uint32(len(in)), IngressIfindex: uint32(g.from.Index)}}
				begin := time.Now()
				if _, err := g.prog.Run(&opts); err != nil {
					return fmt.Errorf("live frames: %w", err)
				}
				took += time.Since(begin)
			}
			return nil
		})
	})
	return took, err
}
