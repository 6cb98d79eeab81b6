// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"crypto/sha256"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// ip runs commands of ip(8) inside a namespace.
func (w *world) ip(n *rig.Namespace, commands ...string) {
	w.t.Helper()
	for _, line := range commands {
		cmd := exec.Command("ip", strings.Fields(line)...)
		var out harness.Output
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := n.Do(cmd.Run); err != nil {
			w.t.Fatalf("ip %s in %s: %v: %s", line, n.Name, err, out.String())
		}
	}
}

const smallMTU = 1280

// The client is behind a router whose link to it has a smaller MTU: the
// router's ICMP errors quote translated segments, and the server accepts them.
func TestSmallerLinkToClient(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			accepted := make(chan *net.TCPConn, 1)
			w.serve(func(c *net.TCPConn) { accepted <- c })
			w.start(w.config("cookie"))
			far, err := rig.NewNamespace("far" + w.tag())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { far.Close() })
			for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
				if err := w.Client.SetSysctl(name, "1"); err != nil {
					t.Fatal(err)
				}
			}
			w.ip(w.Client, "link add tg-near mtu 1280 type veth peer name tg-far mtu 1500 netns "+far.Name, "link set tg-near up")
			w.ip(far, "link set tg-far up", "link set lo up")
			if ipv6 {
				w.ip(w.Client, "addr add fd7d:7467:8::1/64 dev tg-near nodad", "-6 route add fd7d:7467:3::d2/128 dev tg-near")
				w.ip(far, "addr add fd7d:7467:8::2/64 dev tg-far nodad", "addr add fd7d:7467:3::d2/128 dev tg-far nodad", "-6 route add default via fd7d:7467:8::1 src fd7d:7467:3::d2")
			} else {
				w.ip(w.Client, "addr add 198.18.8.1/30 dev tg-near", "route add 198.18.31.210/32 dev tg-near")
				w.ip(far, "addr add 198.18.8.2/30 dev tg-far", "addr add 198.18.31.210/32 dev tg-far", "route add default via 198.18.8.1 src 198.18.31.210")
			}
			c, err := w.dialFrom(far, ipv6)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			server := <-accepted
			defer server.Close()
			send(t, server, c)
			if got := tcpInfo(t, server).Pmtu; got != smallMTU {
				t.Errorf("the server takes the path's MTU for %d, want %d", got, smallMTU)
			}
			if w.counters()["icmp_translated"] == 0 {
				t.Error("no ICMP error was counted as translated")
			}
			if t.Failed() {
				w.whyNoPMTU(server)
			}
		})
	}
}

// whyNoPMTU logs what the server's kernel has made of ICMP errors.
func (w *world) whyNoPMTU(server *net.TCPConn) {
	i := tcpInfo(w.t, server)
	w.t.Logf("server: state %d, MSS %d, path MTU %d, unacknowledged %d, sent again %d, advertised MSS %d; box %v", i.State, i.Snd_mss, i.Pmtu, i.Unacked, i.Total_retrans, i.Advmss, w.counters())
	cmd := exec.Command("nstat", "-asz", "OutOfWindowIcmps", "LockDroppedIcmps", "Icmp6InErrors", "Icmp6InCsumErrors", "Icmp6InPktTooBigs", "IcmpInErrors", "IcmpInCsumErrors", "IcmpInDestUnreachs", "TcpExtTCPChallengeACK", "TcpRetransSegs")
	var out harness.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	err := w.Server.Do(cmd.Run)
	w.t.Logf("the server's counters (%v):\n%s", err, out.String())
}

// The link to the server has a smaller MTU than the client was offered: the box itself sends the ICMP error.
func TestSmallerLinkToServer(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			accepted := make(chan *net.TCPConn, 1)
			w.serve(func(c *net.TCPConn) { accepted <- c })
			w.start(w.config("cookie"))
			w.acquaint(ipv6) // otherwise the client is offered an MSS that always fits
			(<-accepted).Close()
			c, err := w.dial(ipv6)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			server := <-accepted
			defer server.Close()
			if err := w.InnerPort.SetMTU(smallMTU); err != nil {
				t.Fatal(err)
			}
			send(t, c, server)
			if got := tcpInfo(t, c).Pmtu; got != smallMTU {
				t.Errorf("the client takes the path's MTU for %d, want %d", got, smallMTU)
			}
		})
	}
}

// send transfers some MiB from one end to the other and compares sums.
func send(t *testing.T, from, to *net.TCPConn) {
	t.Helper()
	const size = 4 << 20
	for _, c := range []*net.TCPConn{from, to} {
		_ = c.SetDeadline(time.Now().Add(patience))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(from, bulkData(7, size))
		sent <- err
	}()
	h := sha256.New()
	n, err := io.CopyN(h, to, size)
	if err != nil || [32]byte(h.Sum(nil)) != bulkSum(7, size) {
		t.Errorf("%d bytes came, %v, or not those that were sent", n, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
