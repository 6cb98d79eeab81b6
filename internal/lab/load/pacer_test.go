// SPDX-License-Identifier: Apache-2.0

package load

import (
	"math"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	good := map[string]Rate{"0": 0, "25000": 25000, "50k": 50000, "1.5M": 1.5e6, "max": RateMax}
	for text, want := range good {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, float64(got), err, float64(want))
		}
	}
	for _, text := range []string{"", "k", "-1", "NaN", "Inf", "1e12", "5x", "10 k"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, float64(got))
		}
	}
	for r, want := range map[Rate]string{0: "0", 500: "500", 50000: "50k", 1.5e6: "1.5M", RateMax: "max"} {
		if r.String() != want {
			t.Errorf("%g prints as %q, want %q", float64(r), r.String(), want)
		}
	}
}

// drive runs a pacer on a simulated clock; each call costs the given time.
func drive(rate Rate, d, perCall, perFrame time.Duration) (sent int, calls int) {
	now := time.Unix(0, 0)
	end := now.Add(d)
	p := newPacer(rate, now)
	for now.Before(end) {
		n, wait := p.due(now)
		if n == 0 {
			now = now.Add(wait)
			continue
		}
		p.took(n)
		sent, calls = sent+n, calls+1
		now = now.Add(perCall + time.Duration(n)*perFrame)
	}
	return sent, calls
}

func TestPacerKeepsTheRate(t *testing.T) {
	for _, rate := range []Rate{1, 7, 999, 1000, 50000, 333333, 2e6} {
		sent, calls := drive(rate, 10*time.Second, 25*time.Microsecond, 80*time.Nanosecond)
		if want := float64(rate) * 10; math.Abs(float64(sent)-want) > max(2, want/1000) {
			t.Errorf("rate %s: %d frames in 10 s, want %.0f", rate, sent, want)
		}
		if maxCalls := int(10*time.Second/pacerTick) * 101 / 100; calls > maxCalls {
			t.Errorf("rate %s: %d calls, want about one a tick at most (%d)", rate, calls, maxCalls)
		}
	}
}

func TestPacerForgetsOldDebt(t *testing.T) {
	begin := time.Unix(0, 0)
	p := newPacer(1000, begin)
	n, _ := p.due(begin.Add(time.Minute))
	if limit := int(pacerDebt.Seconds() * 1000); n > limit {
		t.Errorf("after a minute's stall %d frames are due, want at most %d", n, limit)
	}
}

func TestPacerZeroAndMax(t *testing.T) {
	if sent, _ := drive(0, time.Second, 0, 0); sent != 0 {
		t.Errorf("rate 0 sent %d frames", sent)
	}
	if n, wait := newPacer(RateMax, time.Unix(0, 0)).due(time.Unix(0, 0)); n != batchMax || wait != 0 {
		t.Errorf("rate max: %d frames, wait %s", n, wait)
	}
}
