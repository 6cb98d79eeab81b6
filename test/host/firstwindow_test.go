// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	plainPort = webPort + 3
	bbrName   = "bbr"
)

// An adopted connection has no round-trip time, and BBR supposes a millisecond. The first window must not be slower for that than
// the one of a connection that the kernel has made itself, and nothing else may differ: algorithm, window, a limit by the application.
func TestFirstWindowIsNotPaced(t *testing.T) {
	w := newWorld(t)
	l, plain := w.listenOn(webPort, unix.IPPROTO_TCP, 16), w.listenOn(plainPort, unix.IPPROTO_TCP, 16)
	w.start(w.webConfig(webPort, adopting))
	if err := errors.Join(l.congestion(bbrName), plain.congestion(bbrName)); errors.Is(err, unix.ENOENT) {
		t.Skip("this kernel has no BBR (CONFIG_TCP_CONG_BBR, module tcp_bbr)")
	} else if err != nil {
		t.Fatal(err)
	}
	made := uint64(0)
	adopt := func(ipv6 bool, congestion string) (client, server conn, info *unix.TCPInfo) {
		client, server = w.connectFrom(l, ipv6, 0)
		made++
		return client, server, w.congested(server, congestion)
	}
	for _, ipv6 := range families() {
		name := familyName(ipv6)
		_, kernels := w.connect(plain, ipv6, 0, plainPort)
		want := w.congested(kernels, bbrName)
		client, server, first := adopt(ipv6, bbrName)
		if first.Rtt != 0 {
			t.Errorf("%s: an adopted socket has a round-trip time of %d µs", name, first.Rtt)
		}
		if first.Snd_cwnd != want.Snd_cwnd {
			t.Errorf("%s: the first window has %d segments, want %d", name, first.Snd_cwnd, want.Snd_cwnd)
		}
		if first.Pacing_rate < want.Pacing_rate {
			t.Errorf("%s: the first window is sent at %d B/s, without the gate at %d", name, first.Pacing_rate, want.Pacing_rate)
		}
		window := uint64(first.Snd_cwnd) * uint64(first.Snd_mss)
		if took := time.Duration(window * uint64(time.Second) / first.Pacing_rate); took > time.Microsecond {
			t.Errorf("%s: the first window takes %v", name, took)
		}
		if err := transfer(server, client, make([]byte, window)); err != nil {
			t.Fatal(err)
		}
		w.await("a round-trip time", func() bool { return w.congested(server, bbrName).Rtt != 0 })
		if now := w.congested(server, bbrName); now.Pacing_rate >= first.Pacing_rate {
			t.Errorf("%s: with a round-trip time of %d µs the rate is %d B/s, as without one", name, now.Rtt, now.Pacing_rate)
		}
	}
	for _, c := range []struct {
		what, congestion string
		set              func() error
		good             func(i *unix.TCPInfo) bool
	}{
		{"a limit of 1 MB/s", bbrName, func() error { return unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, 1e6) },
			func(i *unix.TCPInfo) bool { return i.Pacing_rate == 1e6 && i.Max_pacing_rate == 1e6 }},
		{"the route's own BBR", bbrName, func() error { return w.clientRoute("congctl", "lock", bbrName) },
			func(i *unix.TCPInfo) bool { return true }},
		{"a route with a window of 40", bbrName, func() error { return w.clientRoute("initcwnd", "40") },
			func(i *unix.TCPInfo) bool { return i.Snd_cwnd == 40 }},
		{"a route without", bbrName, func() error { return w.clientRoute() }, func(i *unix.TCPInfo) bool { return true }},
		{"Reno", "reno", func() error { return l.congestion("reno") }, func(i *unix.TCPInfo) bool { return true }},
	} {
		if err := c.set(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		_, _, got := adopt(false, c.congestion)
		if !c.good(got) || (got.Snd_cwnd != 10 && got.Snd_cwnd != 40) {
			t.Errorf("%s: window %d, rate %d B/s", c.what, got.Snd_cwnd, got.Pacing_rate)
		}
	}
	w.wantCounters(map[string]uint64{"adopted": made})
}

func (l *listener) congestion(name string) error {
	return unix.SetsockoptString(l.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

// congested is what the kernel says of a socket, whose algorithm must be this one.
func (w *world) congested(c conn, want string) *unix.TCPInfo {
	w.t.Helper()
	info, err := c.info()
	name, err2 := unix.GetsockoptString(c.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err = errors.Join(err, err2); err != nil {
		w.t.Fatal(err)
	}
	if name != want {
		w.t.Errorf("congestion control is %s, want %s", name, want)
	}
	return info
}

// clientRoute has the server's route to the client say these things.
func (w *world) clientRoute(what ...string) error {
	to := w.ClientAddr(false)
	args := append([]string{"route", "replace", netip.PrefixFrom(to, to.BitLen()).String(), "dev", "tg-server"}, what...)
	return w.Server.Do(func() error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return errors.New("ip " + strings.Join(args, " ") + ": " + string(out))
		}
		return nil
	})
}
