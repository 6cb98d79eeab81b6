// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

// crowd completes handshakes from many ports and from addresses that no machine has, and keeps the
// connections; with data in each, or without.
type crowd struct {
	sources int
	data    bool
	v6      bool
	others  bool // IPv6: each address in a /56 of its own

	newcomers6 bool // newcomers and established connections use IPv6
}

func (w *world) crowdSegment(c crowd, n int) *segment {
	src := []byte{203, 0, 113, byte(1 + n%c.sources%250)}
	if n%c.sources >= 250 {
		src[2] -= byte(n % c.sources / 250)
	}
	if c.v6 {
		src = append([]byte{0x20, 1, 0x0d, 0xb8, 0, 0, 0}, make([]byte, 9)...)
		binary.BigEndian.PutUint32(src[12:], uint32(n))
		if c.others {
			binary.BigEndian.PutUint16(src[5:], uint16(n%c.sources))
		}
	}
	s := &segment{v6: c.v6, src: src, dst: w.ServerAddr(c.v6).AsSlice(), sport: uint16(1024 + n/c.sources), dport: port,
		seq: uint32(n)*77777 + 1, flags: flagACK, window: 1000}
	cookie, tsval := makeCookie(&w.secret, s, s.seq-1, optionBits(6, 1460, true), true, w.edge.now())
	s.ack = cookie + 1
	s.options = binary.BigEndian.AppendUint32([]byte{1, 1, 8, 10, 0, 0, 0, 1}, tsval)
	if c.data {
		s.payload = []byte("x")
	}
	return s
}

// Sources have completed far more handshakes than the table has places, and continue;
// newcomers are served at once, and established connections in use stay.
func TestCrowd(t *testing.T) {
	// Beyond `floor`, connections of one address are its own crowd; those that have ended count until their place is
	// taken. So newcomers and who was there before, all of one address, are `floor` together.
	const flows, finished, floor, newcomers = 512, 2500, 8, 7 // 1,024 places
	for name, c := range map[string]crowd{
		"one address":                         {sources: 1},
		"one address, with data":              {sources: 1, data: true},
		"ten addresses, with data":            {sources: 10, data: true},
		"1,000 addresses":                     {sources: 1000},
		"4,000 addresses, with data":          {sources: 4000, data: true},
		"one IPv6 /56, with data":             {sources: 1, data: true, v6: true},
		"many IPv6 /56s, with data":           {sources: 4000, data: true, v6: true, others: true},
		"many IPv6 /56s, newcomers over IPv6": {sources: 4000, data: true, v6: true, others: true, newcomers6: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{flows: flows, floor: floor})
			w.serve(echo)
			before, err := w.dial(c.newcomers6)
			if err != nil {
				t.Fatal(err)
			}
			defer before.Close()
			w.lasts(t, before)
			stop, rushed, crowd := make(chan struct{}), make(chan struct{}), sync.WaitGroup{}
			end := sync.OnceFunc(func() { close(stop); crowd.Wait() })
			t.Cleanup(end) // before the world is closed, whose descriptors the next test may get
			crowd.Go(func() {
				for n := 0; ; n++ {
					s := w.crowdSegment(c, n)
					w.edge.send(w.edge.inner, s.build(w.frameToServer(c.v6)))
					if n < finished {
						if n%50 == 49 {
							time.Sleep(10 * time.Millisecond) // 5,000 a second
						}
						continue
					}
					if n == finished {
						close(rushed)
					}
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond): // a newcomer survives its first seconds by chance: 1 in 1,024 for each of these
					}
				}
			})
			var lost error
			crowd.Go(func() { // established connections are used, however slow this machine is
				for lost == nil {
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond):
						lost = echoed(before)
					}
				}
			})
			w.await("a full table", func() bool {
				live, _, err := w.plane.Splits()
				return err == nil && live >= 2*flows*98/100
			})
			<-rushed // at 5,000 a second nobody would last
			for i := range newcomers {
				conn, err := w.dial(c.newcomers6)
				if err != nil {
					t.Fatal(err)
				}
				w.says(t, conn, fmt.Sprintf("newcomer %d", i))
				if lost, again := harness.LostSegments(t, conn, 1); lost > 1 {
					t.Errorf("newcomer %d had to send %d segments again, of which %d were missing; %v", i, again, lost, w.counters())
				}
				conn.Close()
			}
			end()
			if lost != nil {
				t.Errorf("behind the crowd: %v; %v", lost, w.counters())
			}
			if w.counter("split_displaced") == 0 {
				t.Errorf("nobody gave way: %v", w.counters())
			}
		})
	}
}

// lasts uses the connections until the table counts them as lasting: for two ticks.
func (w *world) lasts(t *testing.T, conns ...*net.TCPConn) {
	t.Helper()
	tick := func() int64 {
		var mono unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &mono); err != nil {
			t.Fatal(err)
		}
		return mono.Nano() >> 32
	}
	say := func() {
		for _, c := range conns {
			w.says(t, c, "until it lasts")
		}
	}
	say()
	for first := tick(); tick() == first; time.Sleep(50 * time.Millisecond) {
		say()
	}
	say()
}

// says has a word echoed.
func (w *world) says(t *testing.T, c *net.TCPConn, when string) {
	t.Helper()
	if err := echoed(c); err != nil {
		t.Fatalf("%s: %v; %v", when, err, w.counters())
	}
}

func echoed(c *net.TCPConn) error {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("word")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}
