// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"time"

	"tidegate/internal/config"
)

// A recount reads every socket, so it takes at most one part in recountShare of the time.
const (
	recountEvery = 30 * time.Second
	recountShare = 100
)

// Recounts say when the connections of each source are counted again: what the packet path was not told of, or was told twice,
// is wrong until then.
type Recounts struct{ next time.Time }

// Count calls count if there is a limit of them and it is time, or at once.
func (r *Recounts) Count(l *config.SourceLimits, now time.Time, atOnce bool, count func() error) error {
	if l.Concurrent == 0 || !atOnce && now.Before(r.next) {
		return nil
	}
	began := time.Now()
	err := count()
	r.next = now.Add(max(recountEvery, recountShare*time.Since(began)))
	return err
}
