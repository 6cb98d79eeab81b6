// SPDX-License-Identifier: Apache-2.0

package announcer

import (
	"errors"
	"testing"
	"time"
)

// A gate that cannot be read keeps its last state for a while, and no longer: a flood that delays one reading moves nobody.
func TestJudge(t *testing.T) {
	a, now := &Announcer{}, time.Unix(1_800_000_000, 0)
	step := func(after time.Duration, able bool, err error, want bool) {
		t.Helper()
		now = now.Add(after)
		if got, why := a.judge(able, "", err, now); got != want {
			t.Errorf("%v %q, want %v", got, why, want)
		}
	}
	broken := errors.New("too slow")
	step(0, false, broken, false) // it never was able
	step(time.Second, true, nil, true)
	step(time.Second, false, broken, true)
	step(9*time.Second, false, broken, true)
	step(time.Second, true, nil, true)
	step(time.Second, false, broken, true)
	step(10*time.Second, false, broken, false)
	step(time.Second, false, broken, false)
	step(time.Second, true, nil, true)
	step(time.Second, false, nil, false) // it says so itself: at once
	step(time.Second, false, broken, false)
}
