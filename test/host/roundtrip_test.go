// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// A cookie does not say when it was sent, so the kernel must not take a round-trip
// time from the handshake: one that is too short makes it retransmit, by tail loss
// probes and timeouts, segments in flight, and misleads RACK and BBR, which
// keep the minimum.
func TestHandshakeTellsNoRoundTripTime(t *testing.T) {
	const oneWay = 60 * time.Millisecond
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	w.start(w.webConfig(webPort))
	far, err := w.NewImpairedHost("-rtt", rig.Impairment{Delay: oneWay})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for _, timestamps := range []string{"1", "0"} {
		for _, ipv6 := range families() {
			w.sysctl(far.NS, "net.ipv4.tcp_timestamps", timestamps)
			w.noRoundTripTime(l, far, ipv6, 2*oneWay)
		}
	}
}

// A connection's TSvals go on from the SYN-ACK's: a translated connection's do, and an adopted one's jump by 70 minutes,
// without which the kernel would take a round-trip time from the handshake.
func TestTSvalsGoOn(t *testing.T) {
	w, _ := translating(t, "auto")
	for _, port := range []uint16{webPort, mptcpPort} {
		harness.WantTSvals(t, w.ClientPort, port == webPort, func() error { return w.pingNew(false, port) })
	}
	w.wantCounters(map[string]uint64{"adopted": 1, "split_ready": 1})
}

func (w *world) noRoundTripTime(l *listener, far *rig.ImpairedHost, ipv6 bool, rtt time.Duration) {
	t := w.t
	t.Helper()
	client, err := dialer{from: far.NS, to: netip.AddrPortFrom(w.ServerAddr(ipv6), webPort)}.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	// All segments of the first window, and nothing after them.
	info, err := server.info()
	if err != nil {
		t.Fatal(err)
	}
	name := familyName(ipv6) + " " + map[bool]string{false: "without", true: "with"}[info.Options&1 != 0] + " timestamps"
	if short := time.Duration(info.Rtt) * time.Microsecond; short != 0 && short < rtt {
		t.Errorf("%s: after the handshake the server holds the round-trip time for %v; it is %v", name, short, rtt)
	}
	if err := transfer(server, client, make([]byte, 10*info.Snd_mss)); err != nil {
		t.Fatal(err)
	}
	w.await("the server to know that all has arrived", func() bool {
		if info, err = server.info(); err != nil {
			t.Fatal(err)
		}
		return info.Unacked == 0
	})
	if info.Total_retrans != 0 {
		t.Errorf("%s: %d segments of the first ten were sent again; none was lost", name, info.Total_retrans)
	}
	if got := time.Duration(info.Min_rtt) * time.Microsecond; got < rtt {
		t.Errorf("%s: the shortest round-trip time is %v, the path's is %v", name, got, rtt)
	}
}
