// SPDX-License-Identifier: Apache-2.0

// Package detect decides when a SYN flood begins and when it has ended, from counts of SYNs and of handshakes that
// were completed: a non-parametric CUSUM (Wang, Zhang, Shin: Detecting SYN Flooding Attacks, INFOCOM 2002), with a hard
// limit, hysteresis and a calm period. It is pure: counts and elapsed time in, states out. It must never read a
// clock, a map or a packet.
package detect

import (
	"math"
	"time"
)

// Params are the numbers of a Detector. Alpha, A, H and N are those of the paper (section III), in units of T0; the
// others are ours.
type Params struct {
	T0    time.Duration // t_0: the period that A, H and N count in
	Alpha float64       // how much of the estimated average K of completed handshakes is left after a period
	A     float64       // a: an upper bound of X_n's mean without an attack
	H     float64       // h: a lower bound of its increase by an attack; 2a
	N     float64       // the flooding threshold of y_n

	// Patience is how long a handshake may take, on average, until its SYN counts as not completed: a crowd that
	// arrives between two readings has not had the time.
	Patience time.Duration
	// KMin is the least that K is taken for, handshakes a second: on a service that nobody uses, a port scan is no flood.
	KMin float64
	// Hard is the rate of uncompleted SYNs, per second, that is a flood whatever K is. The CUSUM cannot see less than A*K.
	Hard float64
	// Calm is how long there must be no sign of an attack until it has ended. When another begins within Forgive of
	// the end of the last one, Calm doubles, up to CalmMax: pulses keep the protection on instead of making it flap.
	Calm, CalmMax, Forgive time.Duration
}

// Default are the parameters in use. docs/detector.md says where each comes from.
func Default() Params {
	return Params{T0: 100 * time.Millisecond, Alpha: 0.99, A: 0.35, H: 0.7, N: 35,
		Patience: 400 * time.Millisecond, KMin: 50, Hard: 5000,
		Calm: 30 * time.Second, CalmMax: 10 * time.Minute, Forgive: time.Hour}
}

// Counts are those of one period.
type Counts struct {
	SYNs uint64 `json:"syns"`
	Done uint64 `json:"done"` // completed handshakes
}

// Detector watches one service, or one destination prefix of it. The zero value is unusable: see New.
type Detector struct {
	p Params

	waiting float64 // SYNs that are not completed yet
	k       float64 // K: completed handshakes a second
	y       float64 // y_n
	missing float64 // SYNs a second that were not completed, smoothed
	lasting float64 // likewise, over calmSmoothing, while on
	syns    float64 // SYNs a second, smoothed

	on     bool
	quiet  time.Duration // how long there has been no sign of an attack, while on
	calm   time.Duration // how much of that is needed
	since  time.Duration // for how long it has been on, or off
	everOn bool
	lately float64 // done a second, smoothed faster than k

	prepared bool // half of the evidence suffices
}

// New returns a Detector without history.
func New(p Params) *Detector { return &Detector{p: p, calm: p.Calm} }

// SetParams replaces the numbers; what has been seen stays.
func (d *Detector) SetParams(p Params) {
	d.calm, d.p = max(p.Calm, min(d.calm, p.CalmMax)), p
	if !d.everOn {
		d.calm = p.Calm
	}
	d.y = min(d.y, 2*p.N)
}

// Prepare says whether half of what begins an attack otherwise begins one, because others are attacked: A, N and Hard count half.
func (d *Detector) Prepare(on bool) { d.prepared = on }

// evidence is the share of A, N and Hard that suffices.
func (d *Detector) evidence() float64 {
	if d.prepared {
		return 0.5
	}
	return 1
}

// smoothing is the time over which Reading's rates are averaged.
const smoothing = 500 * time.Millisecond

// Step takes the counts of a period that has just ended, and its length. It returns whether there is an attack.
// A period that lasted no time (a clock that stood still or stepped back) is joined with the next one.
func (d *Detector) Step(c Counts, elapsed time.Duration) bool {
	if elapsed <= 0 {
		d.arrive(c)
		return d.on
	}
	seconds := elapsed.Seconds()
	return d.observe(d.match(c, elapsed)/seconds, float64(c.SYNs)/seconds, float64(c.Done)/seconds, elapsed)
}

// observe takes rates a second: of SYNs that have waited too long, of all SYNs, and of completed handshakes.
func (d *Detector) observe(missing, syns, done float64, elapsed time.Duration) bool {
	periods := float64(elapsed) / float64(d.p.T0)
	keep := math.Pow(d.p.Alpha, periods)
	d.k = keep*d.k + (1-keep)*done
	share := min(1, float64(elapsed)/float64(smoothing))
	d.lately += share * (done - d.lately)
	d.missing += share * (missing - d.missing)
	d.syns += share * (syns - d.syns)

	x := missing / d.K() // X_n
	d.y = min(max(0, d.y+(x-d.evidence()*d.p.A)*periods), 2*d.p.N)
	d.since += elapsed
	if !d.on {
		if d.alarming() {
			d.begin()
		}
		return d.on
	}
	d.watchCalm(elapsed)
	return d.on
}

// K is what the counts are normalised by, completed handshakes a second: the estimated average, or what is completed
// now if that is more. A crowd lifts it at once, so that its lost packets are no attack.
func (d *Detector) K() float64 { return max(d.k, d.lately, d.p.KMin) }

// arrive adds SYNs and takes away as many as were completed. More may complete than arrived: some began before we counted.
func (d *Detector) arrive(c Counts) {
	d.waiting = max(0, d.waiting+float64(c.SYNs)-float64(c.Done))
}

// match is how many SYNs have waited too long: of those that wait, as many as if each had a time limit of its own, Patience on
// average. (With one limit for all, a crowd that comes or goes at once would seem not to complete.)
func (d *Detector) match(c Counts, elapsed time.Duration) (expired float64) {
	d.arrive(c)
	expired = d.waiting * -math.Expm1(-float64(elapsed)/float64(d.p.Patience))
	d.waiting -= expired
	return expired
}

// alarming reports whether what is seen now would begin an attack.
func (d *Detector) alarming() bool {
	share := d.evidence()
	return d.y > share*d.p.N && d.missing > share*d.p.A*d.K() || d.missing >= share*d.p.Hard
}

func (d *Detector) begin() {
	d.calm = min(d.p.CalmMax, d.calm*2)
	if !d.everOn || d.since > d.p.Forgive {
		d.calm = d.p.Calm
	}
	d.on, d.everOn, d.quiet, d.since, d.lasting = true, true, 0, 0, d.missing
}

// calmSmoothing is the time over which the end of an attack is judged: a few clients that give up at once are no attack.
const calmSmoothing = 3 * time.Second

// watchCalm ends an attack. The bound is half of the one that begins an attack: hysteresis.
func (d *Detector) watchCalm(elapsed time.Duration) {
	d.lasting += min(1, float64(elapsed)/float64(calmSmoothing)) * (d.missing - d.lasting)
	if share := d.evidence() / 2; d.lasting > share*d.p.A*d.K() || d.lasting > share*d.p.Hard {
		d.quiet = 0
		return
	}
	if d.quiet += elapsed; d.quiet >= d.calm {
		d.on, d.y, d.since = false, 0, 0
	}
}

// Reading is what a Detector sees, for people and for the API.
type Reading struct {
	On      bool          `json:"on"`
	SYNs    float64       `json:"syns_per_second"`
	Missing float64       `json:"uncompleted_per_second"`
	K       float64       `json:"completed_per_second"` // the estimated average
	Y       float64       `json:"y"`                    // y_n; above Params.N is an attack
	Quiet   time.Duration `json:"quiet_ns"`             // while on: without a sign of the attack
	Calm    time.Duration `json:"calm_ns"`              // what is needed of that
}

// Read returns what the detector sees.
func (d *Detector) Read() Reading {
	return Reading{On: d.on, SYNs: d.syns, Missing: d.missing, K: d.K(), Y: d.y, Quiet: d.quiet, Calm: d.calm}
}

// Resume starts the detector in the state that another process has left.
func (d *Detector) Resume(on bool) {
	if on && !d.on {
		d.on, d.everOn, d.quiet, d.since = true, true, 0, 0
	}
}

// idle reports whether the detector has nothing to remember.
func (d *Detector) idle() bool {
	return !d.on && !d.everOn && d.y == 0 && d.missing < 0.01 && d.syns < 0.01 && d.k < 0.01
}
