// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// While the receiver's processor is kept busy, frames wait: as many as the queue has places. The
// veth's ring alone loses most of them.
func TestQueueOutlastsAPause(t *testing.T) {
	needRoot(t)
	if runtime.NumCPU() < 2 {
		t.Fatal("needs two processors")
	}
	const sender, receiver, rate, pause = 0, 1, 50_000, 50 * time.Millisecond // 2,500 frames in the pause
	lost := func(queue int) (frames, lost uint64) {
		p, err := rig.NewPair()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		f, err := NewFlood(p.Near, p.Far, FloodOptions{Target: rig.ServiceAddr(false), CPU: sender, Queue: queue})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		drop, err := p.Far.AttachXDP(f.objs.TgLabDrop)
		if err != nil {
			t.Fatal(err)
		}
		defer drop.Close()
		if _, err := p.Far.PollOn(receiver, false); err != nil {
			t.Fatal(err)
		}
		before, err := p.Far.RxPackets()
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*pause)
		defer stop()
		occupied := make(chan error, 1)
		time.AfterFunc(pause, func() { occupied <- occupy(receiver, pause) })
		s, err := f.RunEven(ctx, rate)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-occupied; err != nil {
			t.Fatal(err)
		}
		after, err := p.Far.RxPackets()
		for deadline := time.Now().Add(time.Second); err == nil && after-before < s.Frames && time.Now().Before(deadline); runtime.Gosched() {
			after, err = p.Far.RxPackets() // the ring's last frames
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.Frames, s.Frames - (after - before)
	}
	if frames, n := lost(4096); n > 0 || frames < rate/10 {
		t.Errorf("a queue of 4,096 places lost %d of %d frames in a pause of 2,500", n, frames)
	}
	if frames, n := lost(VethRing); n == 0 {
		t.Errorf("the ring alone lost none of %d frames in a pause of 2,500: there was no pause", frames)
	}
}

// occupy keeps a processor from all threads without a real-time priority.
func occupy(cpu int, d time.Duration) error {
	runtime.LockOSThread() // and the thread ends with its goroutine
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		continue
	}
	return nil
}
