// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/binding"
)

// Limits of what one peer may cost. The zero value of a field is its default.
type Limits struct {
	Peers        int     // connections (64)
	ReadRate     float64 // bytes/s that are read from a peer (8 MiB); more waits in its own buffers
	ServeRate    float64 // bytes/s of answers to a peer (8 MiB); more waits
	ServeQueue   int     // requests of a peer that wait for that (16); more close the connection
	QueuedBytes  int     // that a peer does not take (4 MiB); more close the connection
	PushRate     float64 // unasked records/s of a peer that are looked at (200)
	PushBurst    float64 // (2,000)
	IgnoreRate   float64 // unasked records/s beyond that (2,000); more close the connection
	ForwardRate  float64 // records/s that are passed on (1,000): no honest peer is above IgnoreRate
	Window       int     // open requests to a peer (8)
	WantQueue    int     // records known to be missing, of one peer (4,096)
	InFlight     int     // records asked for, of all peers (16,384)
	BanTime      time.Duration
	RequestTime  time.Duration // until a request counts as unanswered (3 s)
	SummaryEvery time.Duration // (5 s)
	SilenceTime  time.Duration // until a silent peer is dropped (30 s)
}

func (l *Limits) setDefaults() {
	or := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	orRate := func(p *float64, v float64) {
		if *p == 0 {
			*p = v
		}
	}
	orTime := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	or(&l.Peers, 64)
	orRate(&l.ReadRate, 8<<20)
	orRate(&l.ServeRate, 8<<20)
	or(&l.ServeQueue, 16)
	or(&l.QueuedBytes, 4<<20)
	orRate(&l.PushRate, 200)
	orRate(&l.PushBurst, 2000)
	orRate(&l.IgnoreRate, 2000)
	orRate(&l.ForwardRate, 1000)
	or(&l.Window, 8)
	or(&l.WantQueue, 4096)
	or(&l.InFlight, 16384)
	orTime(&l.BanTime, 10*time.Minute)
	orTime(&l.RequestTime, 3*time.Second)
	orTime(&l.SummaryEvery, 5*time.Second)
	orTime(&l.SilenceTime, 30*time.Second)
}

// limiter is a token bucket that may run into debt: what comes is paid for afterwards, however large it is.
// Its clock is its callers'.
type limiter struct{ *rate.Limiter }

func newLimiter(perSecond, burst float64) limiter {
	return limiter{rate.NewLimiter(rate.Limit(perSecond), max(1, int(burst)))}
}

// pay takes n tokens and returns how long the debt lasts that there is then.
func (l limiter) pay(n int, now time.Time) (wait time.Duration) {
	for n > 0 { // a reservation is never more than the burst
		part := min(n, l.Burst())
		wait = l.ReserveN(now, part).DelayFrom(now)
		n -= part
	}
	return wait
}

// take pays if there is no debt.
func (l limiter) take(n int, now time.Time) bool {
	if l.TokensAt(now) <= 0 {
		return false
	}
	l.pay(n, now)
	return true
}

// Reason says why a connection is closed. The numbers are those of docs/bindings.md.
type Reason uint8

const (
	Normal       Reason = 0 // the sender stops
	BadMessage   Reason = 1 // a message that cannot be read, or an answer to no question
	BadRecord    Reason = 2 // a record that nobody who checks would pass on
	FalseEntry   Reason = 3 // an entry that its record does not bear out
	TooMany      Reason = 4 // more requests, records or connections than allowed
	TooSlow      Reason = 5 // does not take what it is sent
	Silent       Reason = 6 // says nothing
	NotAllowed   Reason = 7 // neither configured nor a manager with a valid binding
	BannedReason Reason = 8 // closed for one of the reasons 1 to 4 not long ago
)

var reasonNames = [...]string{"normal", "bad-message", "bad-record", "false-entry", "too-many", "too-slow", "silent", "not-allowed", "banned"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// MarshalText writes the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// banned tells whether a connection closed for this reason is not taken up again soon.
func (r Reason) banned() bool { return r >= BadMessage && r <= TooMany }

// Stats count what the engine has done. All grow only, except Peers and Bans.
type Stats struct {
	Peers       int                   `json:"peers"`
	Accepted    uint64                `json:"accepted"`
	Refused     [binding.Codes]uint64 `json:"refused"` // by code
	PushIgnored uint64                `json:"push_ignored"`
	PushSeen    uint64                `json:"push_seen"` // known by digest, not looked at
	Forwarded   uint64                `json:"forwarded"`
	Sessions    uint64                `json:"sessions"`
	Asked       uint64                `json:"asked"`      // records
	Unanswered  uint64                `json:"unanswered"` // requests
	BytesIn     uint64                `json:"bytes_in"`
	BytesOut    uint64                `json:"bytes_out"`
	Closed      [9]uint64             `json:"closed"` // by reason
	Bans        int                   `json:"bans"`
}
