// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/labbpf"
	"tidegate/internal/lab/rig"
)

// FloodMix chooses the TCP options of a flood's segments; the numbers are those of enum
// tg_lab_mix in bpf/lab_syn.h. Without SYN, segments have options only for MixTS, MixOdd and MixMany.
type FloodMix uint8

const (
	MixAll   FloodMix = iota // Linux, Windows, macOS and bare SYNs
	MixTS                    // as Linux: with timestamps
	MixNoTS                  // as Windows: without timestamps
	MixBare                  // without options, as most tools
	MixMacOS                 // as macOS
	MixOdd                   // with timestamps, in an order that no system uses
	MixMany                  // with 20 options that say nothing
	MixData                  // as Linux, with 20 bytes of data
)

var floodMixes = []string{MixAll: "mixed", MixTS: "ts", MixNoTS: "nots", MixBare: "bare", MixMacOS: "macos", MixOdd: "odd", MixMany: "many", MixData: "data"}

// ParseFloodMix reads mixed, ts, nots, bare, macos, odd, many or data.
func ParseFloodMix(s string) (FloodMix, error) {
	if i := slices.Index(floodMixes, s); i >= 0 {
		return FloodMix(i), nil
	}
	return 0, fmt.Errorf("flood options %q: want %s", s, strings.Join(floodMixes, ", "))
}

// TCPFlags are those of a TCP header.
type TCPFlags uint8

// The flags that floods are made of.
const (
	FlagFIN TCPFlags = 0x01
	FlagSYN TCPFlags = 0x02
	FlagRST TCPFlags = 0x04
	FlagACK TCPFlags = 0x10
)

// FloodOptions is what a flood sends. The address family is the target's.
type FloodOptions struct {
	Target netip.AddrPort
	Mix    FloodMix
	Flags  TCPFlags // of every segment; 0: SYN
	CPU    int      // of the sender, and of all the softirq work it triggers; -1: any
	// Clients are carried by the flood; nil: none. They need CPU, and Door where their answers arrive.
	Clients *InFlood
	// Queue is the number of places of the receiver's queue, those of its veth's ring (VethRing) included; 0: the ring alone.
	Queue int
}

// Flood sends spoofed SYNs out of a port of the lab. The frames travel as live
// frames of BPF_PROG_TEST_RUN, so that one core sends millions a second; the
// receiver's work is done in the sender's softirq, on the same core.
type Flood struct {
	from *rig.Port
	cpu  int
	objs labbpf.LabFloodObjects
	hold io.Closer
	done uint64 // frames that the program had counted at the end of the last burst

	clients *InFlood
	queue   int // frames that wait in the generator while the receiver's ring is full
}

// Burst is the result of one run at full speed.
type Burst struct {
	Frames  uint64
	Elapsed time.Duration
	// ThreadCPU is the CPU time of the sending thread, including the softirq work in its
	// context, as far as the kernel charges it there.
	ThreadCPU time.Duration
}

// frameLenIn is the initial length of each frame: more than the longest
// frame of bpf/lab_flood.bpf.c (FRAME_LEN_MAX, 114), so that the program changes
// the length of every frame. It must: a recycled frame whose receiver changed
// the length, as one that answers by XDP_TX does, keeps that length unless the
// program changes it again (Linux 6.18, frame_was_changed in net/bpf/test_run.c
// compares only the frame's address and flags).
const frameLenIn = 116

// NewFlood loads a generator that sends from one end of a lab's veth to the other.
func NewFlood(from, to *rig.Port, opts FloodOptions) (*Flood, error) {
	spec, err := labbpf.LoadLabFlood()
	if err != nil {
		return nil, err
	}
	cfg := labbpf.LabFloodTgFloodCfg{Mix: uint8(opts.Mix), TcpFlags: uint8(opts.Flags)}
	if cfg.TcpFlags == 0 {
		cfg.TcpFlags = uint8(FlagSYN)
	}
	copy(cfg.MacDst[:], to.MAC)
	copy(cfg.MacSrc[:], from.MAC)
	// The program reads big-endian fields in memory order.
	cfg.PortBe = binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, opts.Target.Port()))
	dst := opts.Target.Addr()
	if dst.Is4() {
		b := dst.As4()
		cfg.Ip4DstBe = binary.NativeEndian.Uint32(b[:])
	} else {
		cfg.Ipv6 = 1
		b := dst.As16()
		for i := range cfg.Ip6DstBe {
			cfg.Ip6DstBe[i] = binary.NativeEndian.Uint32(b[4*i:])
		}
	}
	if err := spec.Variables["flood_cfg"].Set(cfg); err != nil {
		return nil, err
	}
	if err := spec.Variables["flood_state"].Set(uint64(time.Now().UnixNano())); err != nil {
		return nil, err
	}
	if opts.Clients != nil {
		if err := errors.Join(setClients(spec, opts.Clients), sizeClientCPU(spec, opts.CPU)); err != nil {
			return nil, err
		}
	}
	beside := besideRing(opts.Queue)
	if err := spec.Variables["queue_max"].Set(uint32(beside)); err != nil {
		return nil, err
	}
	f := &Flood{from: from, cpu: opts.CPU, clients: opts.Clients, queue: beside}
	if err := spec.LoadAndAssign(&f.objs, nil); err != nil {
		return nil, fmt.Errorf("load the flood generator: %w", err)
	}
	if f.hold, err = holdDispatcher(from.NS, f.objs.TgLabFlood); err != nil {
		return nil, errors.Join(err, f.objs.Close())
	}
	if opts.Clients != nil {
		if err := f.receiveClients(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// Close unloads the generator.
func (f *Flood) Close() error { return errors.Join(f.hold.Close(), f.objs.Close()) }

// onFloodThread runs fn on a pinned thread in the sender's namespace, after checking
// that the port is ours. The thread is unlocked afterwards, not ended: it may have
// started children, which would die with it (Pdeathsig).
func (f *Flood) onFloodThread(fn func() error) error {
	return f.from.NS.Do(func() error {
		return rig.WithAffinity(f.cpu, func() error {
			if err := f.from.Verify(); err != nil {
				return err
			}
			return fn()
		})
	})
}

// Burst sends about n frames at full speed from the pinned CPU.
func (f *Flood) Burst(n int) (Burst, error) {
	var b Burst
	err := f.onFloodThread(func() error {
		for b.Frames < uint64(n) {
			one, err := f.send(min(n-int(b.Frames), batchMax))
			b.Frames += one.Frames
			b.Elapsed += one.Elapsed
			b.ThreadCPU += one.ThreadCPU
			if err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

// FloodStats is the result of a paced flood.
type FloodStats struct {
	Frames uint64 // offered by the generator; some may find the queue full
	// ClientFrames are the frames of clients inside the flood.
	ClientFrames uint64
	Wall         time.Duration // first frame to last
	Busy         time.Duration // CPU time of the sender and of its CPU's ksoftirqd
}

// Run sends at the rate until ctx ends.
func (f *Flood) Run(ctx context.Context, rate Rate) (FloodStats, error) {
	var s FloodStats
	err := f.onFloodThread(func() error {
		begin, deferred := time.Now(), softirqdCPU(f.cpu)
		p := newPacer(rate, begin)
		for ctx.Err() == nil {
			n, wait := p.due(time.Now())
			if n == 0 {
				ts := unix.NsecToTimespec(int64(wait))
				_ = unix.Nanosleep(&ts, nil)
				continue
			}
			b, err := f.send(n)
			s.Frames += b.Frames
			s.Busy += b.ThreadCPU
			if err != nil {
				return err
			}
			p.took(int(b.Frames))
		}
		s.Wall = time.Since(begin)
		s.Busy += softirqdCPU(f.cpu) - deferred
		return nil
	})
	return s, err
}

// xdpMD is struct xdp_md; XDP_TX sends from the ingress interface.
type xdpMD struct {
	Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

// send makes one call of n frames on the calling thread.
func (f *Flood) send(n int) (Burst, error) {
	b, err := f.sendBatches(n, 0)
	if err == nil && b.Frames == 0 {
		err = errors.New("the generator made no frame")
	}
	return b, err
}

// sendBatches makes one call of n frames in batches of this size (0: 64).
func (f *Flood) sendBatches(n, batch int) (Burst, error) {
	in := make([]byte, frameLenIn)
	opts := ebpf.RunOptions{
		Data:    in,
		Context: xdpMD{DataEnd: uint32(len(in)), IngressIfindex: uint32(f.from.Index)},
		Repeat:  uint32(n), BatchSize: uint32(batch),
		Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
	}
	cpu0, begin := threadCPU(), time.Now()
	_, err := f.objs.TgLabFlood.Run(&opts)
	b := Burst{Elapsed: time.Since(begin), ThreadCPU: threadCPU() - cpu0}
	var total uint64
	// A signal restarts the call: only the program knows the count.
	err = errors.Join(err, f.objs.FloodFrames.Get(&total))
	b.Frames, f.done = total-f.done, total
	return b, err
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
