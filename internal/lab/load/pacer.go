// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is SYNs per second. RateMax sends as fast as one core can, 0 sends none.
type Rate float64

const RateMax = Rate(math.MaxFloat64)

// ParseRate reads 0, 25000, 50k, 1.5M or max.
func ParseRate(s string) (Rate, error) {
	if s == "max" {
		return RateMax, nil
	}
	num, factor := s, 1.0
	switch {
	case strings.HasSuffix(s, "k"):
		num, factor = s[:len(s)-1], 1e3
	case strings.HasSuffix(s, "M"):
		num, factor = s[:len(s)-1], 1e6
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v >= 0) || v*factor > 1e9 {
		return 0, fmt.Errorf("rate %q: want SYNs per second such as 25000, 50k, 1.5M, or max", s)
	}
	return Rate(v * factor), nil
}

func (r Rate) String() string {
	switch {
	case r == RateMax:
		return "max"
	case r >= 1e6:
		return strconv.FormatFloat(float64(r)/1e6, 'g', 4, 64) + "M"
	case r >= 1e3:
		return strconv.FormatFloat(float64(r)/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(float64(r), 'g', 4, 64)
}

const (
	// pacerTick is how often a paced flood sends: short compared with a SYN queue's
	// life, long compared with the cost of one BPF_PROG_TEST_RUN.
	pacerTick = 2 * time.Millisecond
	// pacerDebt is the most a delayed sender catches up at once, so
	// that a stall is not followed by a burst at full speed.
	pacerDebt = 50 * time.Millisecond
	// batchMax bounds one call, so that cancellation is prompt.
	batchMax = 16384
)

// pacer is a token bucket: tokens are frames that are due and not yet sent.
type pacer struct {
	rate   Rate
	last   time.Time
	tokens float64
}

func newPacer(rate Rate, now time.Time) *pacer { return &pacer{rate: rate, last: now} }

// due returns how many frames to send now, or how long to wait for the next.
func (p *pacer) due(now time.Time) (frames int, wait time.Duration) {
	if p.rate == RateMax {
		return batchMax, 0
	}
	p.tokens += now.Sub(p.last).Seconds() * float64(p.rate)
	p.last = now
	if limit := max(1, pacerDebt.Seconds()*float64(p.rate)); p.tokens > limit {
		p.tokens = limit
	}
	if p.rate <= 0 {
		return 0, pacerTick
	}
	// A call has a fixed cost, so wait until a whole tick's frames are due. The
	// slack allows for the rounding of a wait to whole nanoseconds.
	need := math.Min(math.Ceil(pacerTick.Seconds()*float64(p.rate)), batchMax)
	if p.tokens+1e-3 >= need {
		return int(math.Min(p.tokens+1e-3, batchMax)), 0
	}
	return 0, time.Duration((need-p.tokens)/float64(p.rate)*float64(time.Second)) + 1
}

// took subtracts the frames that were sent.
func (p *pacer) took(frames int) { p.tokens -= float64(frames) }
