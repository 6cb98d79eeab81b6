// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Without a listener the client is refused at once, as without the gate. A new
// listener is protected without any command.
func TestNoListener(t *testing.T) {
	w := newWorld(t)
	g := w.start(w.webConfig(webPort))
	g.AwaitLog("level=WARN", "nothing listens", "service=web")
	refused := func() {
		t.Helper()
		for _, ipv6 := range families() {
			if _, err := w.dial(ipv6, webPort); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s: %v, want a refusal", familyName(ipv6), err)
			}
		}
	}
	refused()
	if n := netstat(t, w.Client, "TcpExt", "TCPSynRetrans"); n != 0 {
		t.Errorf("%d SYNs had to be sent again", n)
	}
	w.wantCounters(map[string]uint64{"syn": uint64(len(families())), "pass_listener": uint64(len(families())), "cookie_sent": 0})

	l := w.echoServer(webPort)
	w.awaitListener("web", "ok")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(len(families()))})

	l.close()
	w.awaitListener("web", "none")
	refused()
}

// The kernel cannot adopt for an MPTCP listener: its SYNs go to the kernel, and the log says so.
func TestMPTCPListener(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_MPTCP, 16)
	l.serve(echo)
	g := w.start(w.webConfig(webPort, adopting))
	g.AwaitLog("level=WARN", "MPTCP", "service=web", "multipathtcp=0")
	if got := w.service("web").Listener; got != "mptcp" {
		t.Errorf("status calls the listener %q", got)
	}
	w.mustPingNew(3)
	n := uint64(3 * len(families()))
	w.wantCounters(map[string]uint64{"syn": n, "pass_listener": n, "cookie_sent": 0, "adopt_failed": 0})

	// The server listens again without MPTCP.
	l.close()
	w.echoServer(webPort)
	w.awaitListener("web", "ok")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(len(families()))})
}

// The listener becomes MPTCP while no daemon runs. One adoption is refused,
// from which the packet path itself learns; the service stays reachable.
func TestListenerBecomesMPTCPUnseen(t *testing.T) {
	w := newWorld(t)
	l := w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, adopting))
	w.mustPingNew(1)
	g.Kill()
	l.close()
	w.listenOn(webPort, unix.IPPROTO_MPTCP, 16).serve(echo)

	if err := w.pingNew(false, webPort); err == nil {
		t.Error("a cookie was adopted by an MPTCP listener")
	}
	w.wantCounters(map[string]uint64{"adopt_failed": 1, "pass_listener": 0})
	if got := w.service("web").Listener; got != "refused" {
		t.Errorf("status calls the listener %q", got)
	}
	w.mustPingNew(3)
	w.wantCounters(map[string]uint64{"adopt_failed": 1, "pass_listener": uint64(3 * len(families()))})

	w.start(w.webConfig(webPort, adopting)) // the next daemon identifies the listener
	if got := w.service("web").Listener; got != "mptcp" {
		t.Errorf("status calls the listener %q", got)
	}
	w.mustPingNew(1)
}

// The listener is replaced by an MPTCP one while the daemon does not look. The packet path
// learns it from one connection; the daemon finds it, too, and it is remembered until the
// listener is replaced.
func TestMPTCPLastsAsLongAsTheListener(t *testing.T) {
	w := newWorld(t)
	l := w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, adopting))
	g.Halt()
	l.close()
	refusing := w.listenOn(webPort, unix.IPPROTO_MPTCP, 16)
	refusing.serve(echo)
	if err := w.pingNew(false, webPort); err == nil {
		t.Error("a cookie was adopted by an MPTCP listener")
	}
	g.Signal(unix.SIGCONT)
	g.AwaitLog("level=WARN", "MPTCP", "service=web", ":80")
	w.mustPingNew(1)

	refusing.close()
	w.echoServer(webPort)
	w.awaitListener("web", "ok")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopt_failed": 1, "adopted": uint64(len(families()))})
}

// With tcp_syncookies=0 the kernel accepts no cookie.
func TestSyncookiesSwitchedOffLive(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, adopting))
	w.mustPingNew(1)
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "0")
	g.AwaitLog("level=ERROR", "tcp_syncookies is 0", "sysctl -w net.ipv4.tcp_syncookies=1")
	w.awaitListener("web", "refused")
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopted": uint64(len(families())), "pass_listener": uint64(2 * len(families()))})
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "1")
	w.awaitListener("web", "ok")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(2 * len(families()))})
}

// The SYN-ACK follows changes of the machine's settings while the gate runs. The
// first client after a change may meet a kernel that no longer accepts the cookie;
// from then on its SYNs pass, and after the next check of the system everything works.
func TestSystemValuesFollowed(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	w.start(w.webConfig(webPort))
	all := clientOptions{timestamps: true, scaling: true, sack: true, ecn: 1}
	resets := 0
	want := func(what string, good func(h handshake) bool) {
		t.Helper()
		w.await(what, func() bool {
			h, err := w.shakeHands(l, false, all, []byte("x"))
			if err != nil {
				resets++
				return false
			}
			return good(h) && w.service("web").Listener == "ok"
		})
	}
	want("every option agreed on", func(h handshake) bool { return h.client.Options == 15 && h.client.SndMSS == 1448 })
	w.sysctl(w.Server, "net.ipv4.tcp_sack", "0")
	want("no SACK", func(h handshake) bool { return h.client.Options&2 == 0 })
	w.sysctl(w.Server, "net.ipv4.tcp_timestamps", "0")
	want("no timestamps", func(h handshake) bool { return h.client.Options&1 == 0 })
	if err := w.ServerPort.SetMTU(1400); err != nil {
		t.Fatal(err)
	}
	want("the new MTU", func(h handshake) bool { return h.client.SndMSS == 1360 })
	if resets > 2 { // one per change that breaks cookies
		t.Errorf("%d connections were reset; %v", resets, w.counters())
	}
	// Three clients whose cookies were older than a change have paused it for a second.
	w.await("adoption", func() bool {
		before := w.counters()["adopted"]
		if _, err := w.shakeHands(l, false, all, []byte("x")); err != nil {
			t.Fatal(err)
		}
		return w.counters()["adopted"] == before+1
	})
}
