// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"time"

	"tidegate/internal/lab/rig"

	"golang.org/x/sys/unix"
)

const (
	// evenBurst is the most frames that follow each other at full speed: little against
	// the 256 of a veth's ring, so that what is lost there is lost to load.
	evenBurst = 16
	// evenSleep is how long a sender of few frames sleeps; at more than evenBurst in that time
	// the program itself waits for each frame's time. Shorter calls would be too many: each has
	// a page pool, which the kernel keeps for a second if a frame of it is on its way, and of
	// whose ids it has 65,534 (mem_id_pool, Linux 6.18).
	evenSleep = 500 * time.Microsecond
	// evenCall is how long one call of a waiting program goes on.
	evenCall = 2 * time.Millisecond
	// evenDebt is the most that a sender that fell behind makes up for.
	evenDebt = 2 * time.Millisecond
)

// RunEven sends at the rate until ctx ends, the frames one by one at even distances as far
// as that goes, and never more than a few at once. Run is for receivers that work on the
// sender's back; this is for those that have a queue and a processor of their own.
func (f *Flood) RunEven(ctx context.Context, rate Rate) (FloodStats, error) {
	var s FloodStats
	if rate == 0 {
		<-ctx.Done()
		return s, nil
	}
	err := f.onFloodThread(func() error {
		return rig.WithFavour(func() error {
			begin, deferred := time.Now(), softirqdCPU(f.cpu)
			defer func() { _ = f.objs.FloodGapNs.Set(uint64(0)) }()
			for next := monotonicNs(); ctx.Err() == nil; {
				n, err := f.evenCall(rate, &next)
				if err != nil {
					return err
				}
				if n == 0 {
					continue
				}
				b, err := f.sendBatches(n, evenBurst)
				s.Frames += b.Frames
				s.Busy += b.ThreadCPU
				if err != nil {
					return err
				}
				if rate != RateMax {
					next += int64(float64(b.Frames) * 1e9 / float64(rate))
				}
			}
			s.Wall = time.Since(begin)
			s.Busy += softirqdCPU(f.cpu) - deferred
			return nil
		})
	})
	return s, err
}

// evenCall readies one call and says of how many frames; of none after a sleep. next is when
// the next frame is due.
func (f *Flood) evenCall(rate Rate, next *int64) (frames int, err error) {
	if rate == RateMax {
		return batchMax, f.objs.FloodGapNs.Set(uint64(0))
	}
	gap, now := 1e9/float64(rate), monotonicNs()
	*next = max(*next, now-evenDebt.Nanoseconds())
	if gap*evenBurst < float64(evenSleep) {
		if err := f.objs.FloodNextNs.Set(uint64(*next)); err != nil {
			return 0, err
		}
		return max(evenBurst, int(float64(evenCall)/gap)), f.objs.FloodGapNs.Set(uint64(gap))
	}
	n := dueNow(rate, next)
	if n == 0 {
		return 0, nil
	}
	return n, f.objs.FloodGapNs.Set(uint64(0))
}

// dueNow is how many frames of a slow flood are due; none after a sleep.
func dueNow(rate Rate, next *int64) int {
	gap, now := 1e9/float64(rate), monotonicNs()
	due := int(float64(now-*next) / gap)
	if full := max(1, int(float64(evenSleep)/gap)); due < full {
		ts := unix.NsecToTimespec(*next + int64(float64(full)*gap) - now)
		_ = unix.Nanosleep(&ts, nil)
		return 0
	}
	return min(due, evenBurst)
}

// monotonicNs is the clock of bpf_ktime_get_ns.
func monotonicNs() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
