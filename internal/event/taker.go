// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Taker takes events, one after the other.
type Taker interface {
	Name() string // the same after a restart, for the same taker
	// Take returns nil if it has the event, an error marked errNever if it will never take it, otherwise an error after
	// which it is retried.
	Take(ctx context.Context, e Event) error
}

// resumer is a taker that knows what it has better than the stream's state does.
type resumer interface{ resume(s *Stream) error }

// errNever marks an event that its taker refuses permanently.
var errNever = errors.New("refused for good")

// pauses between attempts: the first, doubled each time up to the last, each shortened at random by up to a half.
var pauseFirst, pauseMost = time.Second, 5 * time.Minute

// after is an error that says when to retry.
type after struct {
	error
	pause time.Duration
}

// feed delivers to a taker what it has missed, for as long as the stream lives. It holds one event at a time: a taker
// that is dead costs a timer.
func (s *Stream) feed(t Taker) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.stop
		cancel()
	}()
	changes, done := s.Watch()
	defer done()
	failures := 0
	for {
		e, lost, ok := s.next(t.Name())
		if !ok {
			select {
			case <-changes:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := t.Take(ctx, e)
		switch {
		case err == nil || errors.Is(err, errNever):
			if lost > 0 {
				s.log.Warn("events were lost: their destination failed for too long", "taker", t.Name(), "lost", lost)
			}
			if err != nil {
				s.log.Error("an event was rejected and is skipped", "taker", t.Name(), "event", e.ID, "error", err)
			} else if failures > 0 {
				s.log.Info("events are delivered again", "taker", t.Name())
			}
			failures = 0
			s.took(t.Name(), e.Seq)
			continue
		case ctx.Err() != nil:
			return
		case failures == 0:
			s.log.Warn("events cannot be delivered; retrying", "taker", t.Name(), "error", err)
		}
		failures++
		select {
		case <-time.After(pauseAfter(failures, err)):
		case <-ctx.Done():
			return
		}
	}
}

// pauseAfter is how long to wait after this many failures.
func pauseAfter(failures int, err error) time.Duration {
	var wait after
	if errors.As(err, &wait) && wait.pause > 0 {
		return min(wait.pause, pauseMost)
	}
	p := pauseMost
	if failures < 20 {
		p = min(p, pauseFirst<<(failures-1))
	}
	return p - rand.N(p/2+1)
}
