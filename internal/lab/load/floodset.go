// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// FloodSet is an attack of several kinds of segments, one batch of each in turn.
type FloodSet []*Flood

// Close unloads the generators.
func (set FloodSet) Close() error {
	var errs []error
	for _, f := range set {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Run sends at the rate until ctx ends.
func (set FloodSet) Run(ctx context.Context, rate Rate) (FloodStats, error) {
	var s FloodStats
	first := set[0]
	err := first.onFloodThread(func() error {
		begin, deferred := time.Now(), softirqdCPU(first.cpu)
		p := newPacer(rate, begin)
		for turn := 0; ctx.Err() == nil; turn++ {
			n, wait := p.due(time.Now())
			if n == 0 {
				ts := unix.NsecToTimespec(int64(wait))
				_ = unix.Nanosleep(&ts, nil)
				continue
			}
			b, err := set[turn%len(set)].send(n)
			s.Frames += b.Frames
			s.Busy += b.ThreadCPU
			if err != nil {
				return err
			}
			p.took(int(b.Frames))
		}
		s.Wall = time.Since(begin)
		s.Busy += softirqdCPU(first.cpu) - deferred
		return nil
	})
	return s, err
}
