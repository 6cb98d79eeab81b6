// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/lab/rig"

	"golang.org/x/sys/unix"
)

const (
	// evenBurst is the maximum of frames sent back to back: few compared with
	// the 256 of a veth's ring, so that only load causes loss there.
	evenBurst = 16
	// evenStep is the longest wait of the program for one frame (WAIT_NS), with softirqs off for
	// a batch; so the batches of a slow flood are small.
	evenStep = 5 * time.Microsecond
	// evenCall is how long one call lasts. Shorter calls would be too many: each has
	// a page pool, which the kernel keeps for a second if one of its frames is in flight, and
	// there are only 65,534 pool ids (mem_id_pool, Linux 6.18). Ids return by RCU callbacks, which a busy
	// processor runs in tens: with calls of 2 ms the ids ran out ("no space left on device") after two minutes of floods.
	evenCall = 10 * time.Millisecond
	// never is a gap longer than any flood.
	never = uint64(1) << 62
)

// RunEven sends at the rate until ctx ends, with frames evenly spaced,
// and at most evenBurst at once. Run is for receivers that work in the
// sender's softirq; RunEven is for those with a queue and a processor of their own.
func (f *Flood) RunEven(ctx context.Context, rate Rate) (FloodStats, error) {
	return f.runEven(ctx, rate, func() (bool, error) { return false, nil })
}

// runEven is RunEven until ctx ends or over returns true.
func (f *Flood) runEven(ctx context.Context, rate Rate, over func() (bool, error)) (s FloodStats, err error) {
	gap := never
	switch {
	case rate == RateMax:
		gap = 0
	case rate > 0:
		gap = uint64(1e9 / float64(rate))
	}
	frames, batch := evenSizes(rate)
	err = f.onFloodThread(func() error {
		return rig.WithFavour(func() error {
			begin, deferred := time.Now(), softirqdCPU(f.cpu)
			defer func() { _ = f.objs.FloodGapNs.Set(uint64(0)) }()
			next := uint64(monotonicNs())
			if gap == never {
				next += never
			}
			if err := errors.Join(f.emptyQueue(), f.objs.FloodNextNs.Set(next), f.objs.FloodGapNs.Set(gap)); err != nil {
				return err
			}
			for ctx.Err() == nil {
				b, err := f.sendBatches(frames, batch)
				s.Frames += b.Frames
				s.Busy += b.ThreadCPU
				if err != nil {
					return err
				}
				if done, err := over(); done || err != nil {
					s.Wall = time.Since(begin)
					return err
				}
			}
			s.Wall = time.Since(begin)
			s.Busy += softirqdCPU(f.cpu) - deferred
			return nil
		})
	})
	if f.queue == 0 || gap == 0 || err != nil {
		return s, err
	}
	lost, err := f.queueLost()
	s.Frames += lost
	return s, err
}

// evenSizes returns how often the program runs in one call, and in one batch of it.
func evenSizes(rate Rate) (frames, batch int) {
	step := evenStep
	if rate > 0 {
		step = min(step, time.Duration(1e9/float64(rate)))
	}
	step = max(step, evenCall/batchMax)
	return min(int(evenCall/step), batchMax), int(min(max(20*time.Microsecond/step, 1), evenBurst))
}

// monotonicNs is the clock of bpf_ktime_get_ns.
func monotonicNs() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
