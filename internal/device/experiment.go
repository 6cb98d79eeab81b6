// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Throughput is one sample: client to device, by the time that the device
// worked. The time that it slept for lack of frames is excluded: on a wire the
// client always has the next one ready, here its machine may be busy.
type Throughput struct {
	Mbps     float64 `json:"mbps"`
	Seconds  float64 `json:"seconds"`  // of the device at work, in intervals without a pause
	Idle     float64 `json:"idle"`     // share of the device's time that it slept
	Skipped  float64 `json:"skipped"`  // share of its time in intervals with a pause, which do not count
	Worked   float64 `json:"worked"`   // seconds of the device at work, all in all
	Answered float64 `json:"answered"` // SYNs a second, in the intervals that count
	SYNs     uint64  `json:"syns"`     // sent during the whole transfer
	// What the device did with them, according to its beacons.
	Cookies  uint32 `json:"cookies"`
	Recycled uint32 `json:"recycled"`
	HalfOpen uint32 `json:"half_open"`
}

// warmUpMS of the device's time pass before throughput is measured.
const warmUpMS = 1000

// running is a device that runs, with its clock.
type running struct {
	net   *Net
	m     *Machine
	clock *Clock
}

func newRunning(ctx context.Context, kind Kind, image string, c Config) (r *running, err error) {
	r = &running{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
			r = nil
		}
	}()
	if r.net, err = NewNet(); err != nil {
		return r, err
	}
	if r.clock, err = Listen(r.net); err != nil {
		return r, err
	}
	if r.m, err = Boot(ctx, r.net, kind, image, c); err != nil {
		return r, err
	}
	_, err = r.clock.Next(ctx, Beacon{})
	return r, err
}

func (r *running) close() error {
	if r.m != nil {
		r.m.Stop()
	}
	var errs []error
	if r.clock != nil {
		errs = append(errs, r.clock.Close())
	}
	if r.net != nil {
		errs = append(errs, r.net.Close())
	}
	return errors.Join(errs...)
}

// attack runs f during a flood; without a rate, f alone.
func (r *running) attack(ctx context.Context, port uint16, rate int, seed uint64, f func(context.Context) error) (sent uint64, err error) {
	if rate == 0 {
		return 0, f(ctx)
	}
	floodCtx, stop := context.WithCancel(ctx)
	flood := NewFlood(r.net, port, rate, seed)
	flood.ByWork = port == sinkPort
	done := make(chan error, 1)
	go func() { done <- flood.Run(floodCtx, r.clock) }()
	err = f(ctx)
	stop()
	return flood.Sent, errors.Join(err, <-done, r.m.Alive())
}

// MeasureThroughput boots a device, opens the bulk transfer, attacks the same
// port if there is a rate, and measures for this many seconds of the device's work.
func MeasureThroughput(ctx context.Context, image string, c Config, rate, seconds int, seed uint64) (t Throughput, err error) {
	r, err := newRunning(ctx, Firmware, image, c)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	dialCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := dial(dialCtx, r.net, false, sinkPort)
	if err != nil {
		return t, err
	}
	defer conn.Close()
	bulkCtx, stop := context.WithCancel(ctx)
	sending := make(chan error, 1)
	go func() { sending <- bulk(bulkCtx, conn) }()
	t.SYNs, err = r.attack(ctx, sinkPort, rate, seed, func(ctx context.Context) error { return r.count(ctx, seconds, &t) })
	stop()
	return t, errors.Join(err, <-sending)
}

// count measures the throughput between two beacons.
func (r *running) count(ctx context.Context, seconds int, t *Throughput) error {
	b, err := r.clock.Next(ctx, Beacon{})
	if err != nil {
		return err
	}
	begin, err := r.clock.AfterWork(ctx, b, warmUpMS)
	if err != nil {
		return err
	}
	busy, end, err := r.clock.busy(ctx, begin, float64(seconds)*1000)
	if err != nil {
		return err
	}
	all := float64(end.TimeMS - begin.TimeMS)
	t.Seconds = busy.ms / 1000
	t.Mbps = float64(busy.bytes) * 8 / busy.ms / 1000
	t.Answered = float64(busy.answered) / busy.ms * 1000
	t.Idle, t.Skipped = 1-workedMS(begin, end)/all, 1-busy.ms/all
	t.Worked = workedMS(begin, end) / 1000
	t.Cookies, t.Recycled, t.HalfOpen = end.CookiesSent, end.Recycled, end.HalfOpen
	if t.Mbps == 0 {
		return fmt.Errorf("the bulk transfer makes no progress")
	}
	return nil
}

// MeasureLoad boots a device, floods its web server, and starts honest
// clients. The flood starts earlier, so that the queue is full.
func MeasureLoad(ctx context.Context, kind Kind, image string, c Config, rate, requests int, ipv6 bool) (l Load, err error) {
	r, err := newRunning(ctx, kind, image, c)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if _, err := get(ctx, r.net, ipv6, requestTimeout); err != nil {
		return l, fmt.Errorf("the device does not answer even before the flood: %w", err)
	}
	_, err = r.attack(ctx, httpPort, rate, 1, func(ctx context.Context) error {
		b, err := r.clock.Next(ctx, Beacon{})
		if err != nil {
			return err
		}
		if _, err := r.clock.After(ctx, b, warmUpMS); err != nil {
			return err
		}
		l, err = RunLoad(ctx, r.net, ipv6, requests)
		return err
	})
	return l, err
}
