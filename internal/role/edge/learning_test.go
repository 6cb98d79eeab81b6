// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"testing"
	"time"
)

// A reload moves the end of a learning that began here, and only of that.
func TestLearning(t *testing.T) {
	var l learning
	if got := l.until(time.Hour, 7); got != 7 {
		t.Errorf("an earlier process's filter learns until %d, want 7, as it said", got)
	}
	l.begin(0)
	short, long := l.until(time.Second, 7), l.until(time.Minute, 7)
	if long-short != uint64((59*time.Second).Nanoseconds()) || short != uint64(l.began+time.Second.Nanoseconds()) {
		t.Errorf("it began at %d and ends at %d with 1s, at %d with 1m", l.began, short, long)
	}
	l.begin(time.Minute)
	if got, want := l.until(time.Second, 7), l.until(time.Minute, 7); got != want {
		t.Errorf("it ends at %d, want %d: flows of the filter before have a minute", got, want)
	}
}
