// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Every key once, again from a failure on, and all of them after the clock was set
// back.
func TestLoader(t *testing.T) {
	const epoch, horizon = 8 * time.Second, time.Minute
	start := time.Unix(1_700_000_000, 0)
	var l Loader
	load := func(now time.Time, refuse uint64) (got []uint64, err error) {
		err = l.Load(now, epoch, horizon, func(n uint64) error {
			if n == refuse {
				return errors.New("full")
			}
			got = append(got, n)
			return nil
		})
		return got, err
	}
	all := Epochs(start, epoch, horizon)
	third := all[2]
	if got, err := load(start, third); err == nil || !slices.Equal(got, all[:2]) || l.Last() != all[1] {
		t.Errorf("up to a failure: %v, %v, last %d", got, err, l.Last())
	}
	if got, err := load(start, 0); err != nil || !slices.Equal(got, all[2:]) {
		t.Errorf("after it: %v, %v, want %v", got, err, all[2:])
	}
	if got, err := load(start, 0); err != nil || got != nil {
		t.Errorf("nothing is lacking, and loaded were %v, %v", got, err)
	}
	if got, err := load(start.Add(epoch), 0); err != nil || !slices.Equal(got, []uint64{all[len(all)-1] + 1}) {
		t.Errorf("an epoch later: %v, %v", got, err)
	}
	back := start.Add(-time.Hour)
	if got, err := load(back, 0); err != nil || !slices.Equal(got, Epochs(back, epoch, horizon)) {
		t.Errorf("after the clock was set back: %v, %v", got, err)
	}
}
