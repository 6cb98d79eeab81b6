// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"time"
)

// Loader tracks which epochs' keys a packet path has, and loads the missing ones.
// Its zero value has none.
type Loader struct {
	last uint64 // highest epoch whose key is loaded
}

// Last is the highest epoch whose key is loaded; 0: none is.
func (l *Loader) Last() uint64 { return l.last }

// Until is the end of the last epoch whose key is loaded.
func (l *Loader) Until(epoch time.Duration) time.Time { return EpochStart(l.last+1, epoch) }

// ReloadFrom makes the next Load load the keys from epoch n on again.
func (l *Loader) ReloadFrom(n uint64) {
	if l.last != 0 {
		l.last = min(l.last, n-1)
	}
}

// Load calls put for each epoch from a few before now to the horizon that has no key yet,
// in rising order: after the first call that is one per epoch. If put fails, the next
// call resumes there. A clock that was set back is followed: the slots then hold keys of
// what is now the future, and all are loaded again.
func (l *Loader) Load(now time.Time, epoch, horizon time.Duration, put func(n uint64) error) error {
	list := Epochs(now, epoch, horizon)
	if list[len(list)-1] < l.last {
		l.last = 0
	}
	for _, n := range list {
		if l.last != 0 && n <= l.last {
			continue
		}
		if err := put(n); err != nil {
			return fmt.Errorf("key of epoch %d: %w", n, err)
		}
		l.last = n
	}
	return nil
}
