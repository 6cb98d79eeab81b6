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
	// evenBatch is the most frames in a batch. The kernel sends 16 of them at a time (DEV_MAP_BULK_SIZE), so a larger batch is no
	// larger burst: few compared with the 256 of a veth's ring. Softirqs are off for a batch, in which the victim's answers wait:
	// they must fit into the ring, too. Its page pool has room for as many pages as a batch has frames, and the thread that
	// receives the answers is woken once a batch.
	evenBatch = 128
	// evenSpan is how long a batch may take.
	evenSpan = 40 * time.Microsecond
	// evenStep is the longest wait of the program for one frame (WAIT_NS); so the batches of a slow flood are small.
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
// and at most 16 at once. Run is for receivers that work in the
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
			for ctx.Err() == nil && !isPast(ctx) {
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
	if f.queue == 0 || gap == 0 || err != nil || s.Frames == 0 {
		return s, err
	}
	lost, err := f.queueLost()
	s.Frames += lost
	return s, err
}

// isPast reports whether the context's deadline is over. Its timer may run on this processor, late.
func isPast(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return has && time.Now().After(end)
}

// evenSizes returns how often the program runs in one call, and in one batch of it.
func evenSizes(rate Rate) (frames, batch int) {
	step := evenStep
	if rate > 0 {
		step = min(step, time.Duration(1e9/float64(rate)))
	}
	step = max(step, 1)
	return int(min(evenCall/step, batchMax)), int(min(max(evenSpan/step, 1), evenBatch))
}

// monotonicNs is the clock of bpf_ktime_get_ns.
func monotonicNs() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
