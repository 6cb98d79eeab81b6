// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a connection that is idle until a keep-alive of one end is due.
type sleeper struct {
	name string
	*net.TCPConn
	before *unix.TCPInfo
}

// sleepers opens one for each family and each end that sends the keep-alive; that end sends
// one, and kills its connection within a second if it is not answered.
func (w *world) sleepers(idle time.Duration) (all []*sleeper) {
	w.t.Helper()
	once := net.KeepAliveConfig{Enable: true, Idle: idle, Interval: time.Second, Count: 1}
	off := net.KeepAliveConfig{}
	w.serveFor(2*idle+2*time.Minute, func(c *net.TCPConn) {
		defer c.Close()
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			return
		}
		if b[0] == 's' {
			_ = c.SetKeepAliveConfig(once)
		} else {
			_ = c.SetKeepAliveConfig(off)
		}
		_, _ = c.Write(b)
		_, _ = io.Copy(c, c)
	})
	for _, ipv6 := range families() {
		for who, config := range map[string]net.KeepAliveConfig{"client": once, "server": off} {
			c, err := w.dial(ipv6)
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(2*idle + 2*time.Minute))
			b := []byte(who[:1])
			if err := c.SetKeepAliveConfig(config); err != nil {
				w.t.Fatal(err)
			}
			if _, err := c.Write(b); err != nil {
				w.t.Fatal(err)
			}
			if _, err := io.ReadFull(c, b); err != nil {
				w.t.Fatal(err)
			}
			all = append(all, &sleeper{name: familyName(ipv6) + ", keep-alive of the " + who, TCPConn: c})
		}
	}
	time.Sleep(200 * time.Millisecond) // delayed ACKs of what was just said
	for _, s := range all {
		s.before = s.info(w.t)
	}
	return all
}

func (s *sleeper) info(t *testing.T) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := s.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			var e error
			if info, e = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); e != nil {
				t.Error(e)
			}
		})
	}
	if err != nil || info == nil {
		t.Fatal(err)
	}
	return info
}

// awaitKeepAlives waits until every connection has sent or received one, and a second more,
// in which an unanswered one kills its connection. Linux lets a distant timer be late by an eighth of
// its time (timer wheel): by minutes for an hour.
func (w *world) awaitKeepAlives(all []*sleeper, idle time.Duration) {
	w.t.Helper()
	for deadline := time.Now().Add(idle + idle/4 + patience); ; time.Sleep(100 * time.Millisecond) {
		waiting := 0
		for _, s := range all {
			if now := s.info(w.t); now.Segs_in == s.before.Segs_in && now.Segs_out == s.before.Segs_out {
				waiting++
			}
		}
		if waiting == 0 {
			break
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d connections have seen no keep-alive", waiting, len(all))
		}
	}
	time.Sleep(2 * time.Second) // the answer, or the end
}

// awake returns why a connection did not survive; nil if it did.
func (s *sleeper) awake(t *testing.T) error {
	t.Helper()
	now := s.info(t)
	if in, out := now.Segs_in-s.before.Segs_in, now.Segs_out-s.before.Segs_out; in != 1 || out != 1 {
		return fmt.Errorf("%d segments came and %d went while it slept; want a keep-alive and its answer", in, out)
	}
	_ = s.SetDeadline(time.Now().Add(2 * time.Second))
	b := []byte("awake?")
	if _, err := s.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(s, b)
	return err
}

// A connection that is idle until a keep-alive comes, say after an hour, is still
// known. Here tables age quickly: four swap periods pass. `make soak` waits the hour that
// TIDEGATE_SOAK_IDLE names, with the default periods.
func TestKeepAliveAfterLong(t *testing.T) {
	idle, extra := 4*time.Second, "swap_period: 1s"
	if s := os.Getenv("TIDEGATE_SOAK_IDLE"); s != "" {
		var err error
		if idle, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		extra = ""
	}
	w := newWorld(t, false)
	w.start(w.config("cookie", extra))
	all := w.sleepers(idle)
	w.awaitKeepAlives(all, idle)
	for _, s := range all {
		if err := s.awake(t); err != nil {
			t.Errorf("%s: %v", s.name, err)
		} else {
			t.Logf("%s: alive after %v", s.name, idle)
		}
	}
	w.wantCounters(map[string]uint64{"flow_opened": uint64(len(all)), "cookie_invalid": 0})
}

// The counterpart: with an idle_time that is too short for its keep-alives a
// connection is forgotten. Otherwise the test above would prove nothing.
func TestKeepAliveTooLate(t *testing.T) {
	w := newWorld(t, false)
	w.start(w.config("cookie", "swap_period: 1s", "idle_time: 1s"))
	all := w.sleepers(4 * time.Second)
	w.awaitKeepAlives(all, 4*time.Second)
	for _, s := range all {
		if err := s.awake(t); err == nil {
			t.Errorf("%s: a connection that was to be forgotten lives", s.name)
		}
	}
}
