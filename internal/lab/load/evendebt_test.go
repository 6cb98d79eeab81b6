// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"testing"
)

// A generator that was descheduled does not catch up in a burst that overflows a
// victim's ring of 256 frames.
func TestEvenDebt(t *testing.T) {
	_, f := floodOnPair(t)
	const gap = 2000 // nanoseconds
	var sent Burst
	err := f.onFloodThread(func() (err error) {
		late := uint64(monotonicNs() - 20_000_000)
		if err := errors.Join(f.objs.FloodNextNs.Set(late), f.objs.FloodGapNs.Set(uint64(gap))); err != nil {
			return err
		}
		sent, err = f.sendBatches(1000, evenBatch)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const debt = 64
	if most := uint64(sent.Elapsed.Nanoseconds())/gap + debt + evenBatch; sent.Frames > most || sent.Frames == 0 {
		t.Errorf("%d frames in %s, at most %d", sent.Frames, sent.Elapsed, most)
	}
}
