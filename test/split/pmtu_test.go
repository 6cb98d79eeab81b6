// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

const smallMTU = 1280

// pmtu is the path MTU that a socket has learned.
func (w *place) pmtu(c *net.TCPConn) (mtu uint32) {
	w.t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		w.t.Fatal(err)
	}
	var info *unix.TCPInfo
	if ctl := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); ctl != nil || err != nil {
		w.t.Fatal(ctl, err)
	}
	return info.Pmtu
}

// move sends two megabytes from one end to the other.
func (w *place) move(from, to *net.TCPConn) {
	w.t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	errs := make(chan error, 1)
	go func() {
		_, err := from.Write(data)
		errs <- err
	}()
	got := make([]byte, len(data))
	if n, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, data) {
		w.t.Errorf("%d bytes came, %v, or not those that were sent", n, err)
	}
	if err := <-errs; err != nil {
		w.t.Error(err)
	}
}

// The client is behind a router whose link to it has a smaller MTU: the router's
// ICMP errors quote translated segments, and the translating server's stack accepts
// them, because the quoted numbers are translated back to its own.
func TestTranslatedSmallerLink(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newTagged(t, nil, nil)
			accepted := make(chan *net.TCPConn, 1)
			w.serve(func(c *net.TCPConn) { accepted <- c })
			w.startBoth()
			far, err := rig.NewNamespace("far" + w.Tag())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { far.Close() })
			w.sysctl(w.Client, "net.ipv4.ip_forward", "1")
			w.sysctl(w.Client, "net.ipv6.conf.all.forwarding", "1")
			w.ip(w.Client, "link add tg-near mtu 1280 type veth peer name tg-far mtu 1500 netns "+far.Name, "link set tg-near up")
			w.ip(far, "link set tg-far up", "link set lo up")
			if ipv6 {
				w.ip(w.Client, "addr add fd7d:7467:8::1/64 dev tg-near nodad", "-6 route add fd7d:7467:3::d2/128 dev tg-near")
				w.ip(far, "addr add fd7d:7467:8::2/64 dev tg-far nodad", "addr add fd7d:7467:3::d2/128 dev tg-far nodad", "-6 route add default via fd7d:7467:8::1 src fd7d:7467:3::d2")
			} else {
				w.ip(w.Client, "addr add 198.18.8.1/30 dev tg-near", "route add 198.18.31.210/32 dev tg-near")
				w.ip(far, "addr add 198.18.8.2/30 dev tg-far", "addr add 198.18.31.210/32 dev tg-far", "route add default via 198.18.8.1 src 198.18.31.210")
			}
			c := w.openSilent(far, w.address(ipv6, port))
			server := <-accepted
			defer server.Close()
			w.move(server, c)
			if got := w.pmtu(server); got != smallMTU {
				t.Errorf("the server takes the path's MTU for %d, want %d", got, smallMTU)
			}
			if w.server.counters()["icmp_translated"] == 0 {
				t.Error("no ICMP error was counted as translated")
			}
		})
	}
}

// A guest behind a link with a smaller MTU: the server's machine, which routes to it, sends the
// client an ICMP error, and quotes what the client has sent.
func TestTranslatedSmallerLinkToGuest(t *testing.T) {
	w := newAuto(t)
	guest := w.guest()
	w.ip(w.place.Server, "link set tg-tap mtu 1280")
	accepted := make(chan *net.TCPConn, 1)
	at := netip.MustParseAddrPort(guestAddr + ":80")
	w.listenWith(guest, at, false, func(c *net.TCPConn) { accepted <- c })
	w.startBoth()
	c := w.openSilent(w.Client, at)
	server := <-accepted
	defer server.Close()
	w.move(c, server)
	if got := w.pmtu(c); got != smallMTU {
		t.Errorf("the client takes the path's MTU for %d, want %d", got, smallMTU)
	}
	if w.server.counters()["icmp_translated"] == 0 {
		t.Error("no ICMP error was counted as translated")
	}
}
