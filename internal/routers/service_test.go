// SPDX-License-Identifier: Apache-2.0

package routers

import (
	"testing"
	"time"
)

func TestPresence(t *testing.T) {
	p, now := Presence{Settle: 10 * time.Second}, begin
	step := func(after time.Duration, able, want bool) {
		t.Helper()
		now = now.Add(after)
		if got := p.Step(able, now); got != want {
			t.Errorf("at %s: announced %v", now.Sub(begin), got)
		}
	}
	step(0, true, false)
	step(9*time.Second, true, false)
	step(time.Second, true, true)
	step(time.Minute, false, false) // at once
	step(time.Second, true, false)
	step(19*time.Second, true, false) // twice as long
	step(time.Second, true, true)
	step(time.Second, false, false)
	step(time.Second, true, false)
	step(30*time.Second, false, false) // it never came back: that is no further failure
	step(time.Second, true, false)
	step(39*time.Second, true, false)
	step(time.Second, true, true)
	step(time.Hour, true, true)
	step(time.Second, false, false) // it was steady: all is forgotten but this
	step(time.Second, true, false)
	step(20*time.Second, true, true)
}

func TestPresenceIsBounded(t *testing.T) {
	p, now := Presence{Settle: 0}, begin
	for range 40 {
		for announced, since := false, now; !announced; now = now.Add(time.Second) {
			if announced = p.Step(true, now); now.Sub(since) > 10*time.Minute {
				t.Fatal("it takes more than ten minutes to come back")
			}
		}
		p.Step(false, now)
		now = now.Add(time.Second)
	}
	if p.failures != 40 {
		t.Errorf("%d failures", p.failures)
	}
	quick := Presence{}
	if !quick.Step(true, begin) {
		t.Error("settle: 0 does not announce at once")
	}
}
