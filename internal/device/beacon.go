// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Beacon is the state that the device sends every 20 ms of its time; the bits are
// drawn in lwip/app/app.c.
type Beacon struct {
	TimeMS      uint32
	SinkBytes   uint32
	TCPReceived uint32
	CookiesSent uint32
	Recycled    uint32
	HalfOpen    uint32
	IdleUS      uint32 // slept for lack of work
}

// workedMS is the time between two beacons that the device did not sleep. The
// device sleeps for lack of frames, when the machine under the emulator is busy.
func workedMS(from, to Beacon) float64 {
	return float64(to.TimeMS-from.TimeMS) - float64(to.IdleUS-from.IdleUS)/1000
}

const beaconLen = 32

func parseBeacon(b []byte) (Beacon, error) {
	if len(b) != beaconLen || string(b[:4]) != "TGB1" {
		return Beacon{}, fmt.Errorf("not a beacon: %d bytes", len(b))
	}
	w := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return Beacon{TimeMS: w(1), SinkBytes: w(2), TCPReceived: w(3), CookiesSent: w(4), Recycled: w(5), HalfOpen: w(6), IdleUS: w(7)}, nil
}

// Clock follows the device's beacons.
type Clock struct {
	conn net.PacketConn

	mu      sync.Mutex
	last    Beacon
	changed chan struct{} // closed and replaced at every beacon
	err     error
}

// Listen opens the beacons' port in the namespace.
func Listen(n *Net) (*Clock, error) {
	c := &Clock{changed: make(chan struct{})}
	err := n.NS.Do(func() (err error) {
		c.conn, err = net.ListenPacket("udp4", fmt.Sprintf("%s:%d", lab4.Addr(), beaconPort))
		return err
	})
	if err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func (c *Clock) read() {
	buf := make([]byte, 64)
	for {
		k, _, err := c.conn.ReadFrom(buf)
		var b Beacon
		if err == nil {
			b, err = parseBeacon(buf[:k])
		}
		c.mu.Lock()
		if err == nil {
			c.last = b
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.err = err
		}
		close(c.changed)
		c.changed = make(chan struct{})
		stop := c.err != nil
		c.mu.Unlock()
		if stop {
			return
		}
	}
}

// silence is how long the device may send nothing before it counts as dead.
const silence = 10 * time.Second

// Next waits for a beacon after the given one.
func (c *Clock) Next(ctx context.Context, after Beacon) (Beacon, error) {
	dead := time.NewTimer(silence)
	defer dead.Stop()
	for {
		c.mu.Lock()
		last, changed, err := c.last, c.changed, c.err
		c.mu.Unlock()
		switch {
		case err != nil:
			return Beacon{}, fmt.Errorf("beacons: %w", err)
		case last != after && last != (Beacon{}):
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Beacon{}, ctx.Err()
		case <-dead.C:
			return Beacon{}, fmt.Errorf("the device has sent no beacon for %s", silence)
		}
	}
}

// AfterWork waits until the device has worked for this long since a beacon.
func (c *Clock) AfterWork(ctx context.Context, from Beacon, ms float64) (Beacon, error) {
	b := from
	var err error
	for {
		if b, err = c.Next(ctx, b); err != nil || workedMS(from, b) >= ms {
			return b, err
		}
	}
}

// pauseUS is how long the device may sleep between two beacons for the interval to count as busy.
const pauseUS = 20

// busySpan sums up intervals between beacons.
type busySpan struct {
	ms       float64
	bytes    uint64
	answered uint64 // SYNs, by a cookie or by recycling
}

// busy waits until intervals in which the device hardly slept make up this much time, and sums those up. A pause
// costs the device more than the time that it sleeps: it wakes, and takes frames one by one. So only where
// it never paused does throughput not depend on how busy the machine under the emulator is.
func (c *Clock) busy(ctx context.Context, from Beacon, ms float64) (sum busySpan, b Beacon, err error) {
	b = from
	for sum.ms < ms {
		last := b
		if b, err = c.Next(ctx, last); err != nil {
			return sum, b, err
		}
		sum.add(last, b)
		if all := float64(b.TimeMS - from.TimeMS); all > 20*ms {
			return sum, b, fmt.Errorf("the device had work without a pause for %.1f s of %.1f: this machine is too busy to measure throughput", sum.ms/1000, all/1000)
		}
	}
	return sum, b, nil
}

// add counts the interval between two beacons unless the device paused in it.
func (s *busySpan) add(from, to Beacon) {
	if to.IdleUS-from.IdleUS <= pauseUS {
		s.ms += workedMS(from, to)
		s.bytes += uint64(to.SinkBytes - from.SinkBytes)
		s.answered += uint64(to.CookiesSent - from.CookiesSent + to.Recycled - from.Recycled)
	}
}

// After waits until this much of the device's time has passed since a beacon.
func (c *Clock) After(ctx context.Context, from Beacon, ms uint32) (Beacon, error) {
	b := from
	var err error
	for {
		if b, err = c.Next(ctx, b); err != nil || b.TimeMS-from.TimeMS >= ms {
			return b, err
		}
	}
}

// Close stops following.
func (c *Clock) Close() error { return c.conn.Close() }
