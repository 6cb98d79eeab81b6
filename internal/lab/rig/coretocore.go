// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Each of coreRuns passes a cache line coreRounds times to and fro; together they take a few milliseconds.
const (
	coreRuns   = 9
	coreRounds = 1000
)

// CoreToCore is how long a cache line that one processor has written takes to the other: the median of a few runs. In a
// virtual machine it changes when the host moves its processors. Whatever a frame brings from one to the other costs that much.
func CoreToCore(a, b int) (time.Duration, error) {
	if a == b {
		return 0, fmt.Errorf("core to core: both are processor %d", a)
	}
	// A process that Quiet binds to one processor gets a GOMAXPROCS of 1, at any time; what is set stays.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer runtime.SetDefaultGOMAXPROCS()
	l := passedLine{times: make([]time.Duration, coreRuns)}
	var errs [2]error
	var sides sync.WaitGroup
	for i, cpu := range []int{a, b} {
		sides.Go(func() {
			// The thread goes on afterwards: it may have started a process that is to end with it (Pdeathsig).
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if errs[i] = WithAffinity(cpu, func() error { l.pass(i); return nil }); errs[i] != nil {
				l.gone.Store(true)
			}
		})
	}
	sides.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return 0, fmt.Errorf("core to core: %w", err)
	}
	slices.Sort(l.times)
	return l.times[coreRuns/2], nil
}

// passedLine is a cache line that two sides write in turn.
type passedLine struct {
	_     [64]byte
	turn  atomic.Uint32 // even: it is the turn of side 0
	_     [60]byte
	gone  atomic.Bool // a side cannot take its turns
	times []time.Duration
}

// pass takes the turns of side 0 or 1.
func (l *passedLine) pass(side int) {
	for run := range l.times {
		begin := time.Now()
		for round := range coreRounds {
			mine := uint32(2*(run*coreRounds+round) + side)
			for l.turn.Load() != mine {
				if l.gone.Load() {
					return
				}
			}
			l.turn.Store(mine + 1)
		}
		if side == 0 {
			l.times[run] = time.Since(begin) / (2 * coreRounds)
		}
	}
}
