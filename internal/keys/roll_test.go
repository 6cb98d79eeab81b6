// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"path/filepath"
	"testing"
	"time"
)

// Every epoch has the keys of one secret: the first one's until the roll, then the next's.
func TestRoll(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, path := range []string{a, b} {
		if err := CreateSecret(path); err != nil {
			t.Fatal(err)
		}
	}
	const epoch = 8 * time.Second
	at := EpochStart(1000, epoch)
	first, err := LoadSecret(a)
	if err != nil {
		t.Fatal(err)
	}
	next, err := LoadSecret(b)
	if err != nil {
		t.Fatal(err)
	}
	for from, rolls := range map[time.Time]uint64{at: 1000, at.Add(1): 1001, at.Add(-1): 1000} {
		r, err := LoadRoll(a, b, from, epoch)
		if err != nil {
			t.Fatal(err)
		}
		for n := uint64(995); n < 1005; n++ {
			want := first
			if n >= rolls {
				want = next
			}
			if r.EpochKey(n) != want.EpochKey(n) || r.TagKey(n) != want.TagKey(n) ||
				r.ConfirmKey(n) != want.ConfirmKey(n) || r.SyncKey(n) != want.SyncKey(n) || r.SmartKey(n) != want.SmartKey(n) {
				t.Errorf("from %s: epoch %d has the wrong keys", from, n)
			}
		}
	}
	r, err := LoadRoll(a, "", time.Time{}, epoch)
	if err != nil || r.EpochKey(1<<40) != first.EpochKey(1<<40) {
		t.Errorf("without a roll: %v", err)
	}
	if _, err := LoadRoll(a, filepath.Join(dir, "c"), at, epoch); err == nil {
		t.Error("a missing next secret was accepted")
	}
}
