// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	harness "tidegate/test/world"
)

const (
	reusePorts    = 20
	reuseRequests = 3000 // of each kind: every port is used 150 times
	firstPort     = 40000
)

// A request is one letter: which side closes first.
const (
	serverCloses = 's'
	clientCloses = 'c'
)

// oneShot answers one request and closes, or waits for the client to close.
func oneShot(c conn) {
	defer c.Close()
	var b [1]byte
	if _, err := c.Read(b[:]); err != nil {
		return
	}
	if _, err := c.Write(b[:]); err != nil || b[0] == serverCloses {
		return
	}
	_, _ = c.Read(b[:]) // the end
}

// request makes one from a given port and follows the connection to its end.
func (w *world) request(ipv6 bool, port uint16, who byte) error {
	c, err := dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), localPort: port}.dial()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	var b [1]byte
	if _, err := c.Write([]byte{who}); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if n, err := c.Read(b[:]); err != nil || b[0] != who {
		return fmt.Errorf("receive: %d bytes, %w", n, err)
	}
	if who == clientCloses {
		if err := unix.Shutdown(c.fd, unix.SHUT_WR); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	// Whoever closes first, both have when this ends: a SYN from the same port must not meet a server that is about to.
	if n, err := c.Read(b[:]); !errors.Is(err, io.EOF) {
		return fmt.Errorf("end: %d bytes, %w", n, err)
	}
	return nil
}

// A client's ports are reused far sooner than a server's
// TIME-WAIT ends. No request may fail, and none may wait for a second SYN, which
// would be a stall.
func TestPortsReused(t *testing.T) {
	for _, timestamps := range []string{"1", "0"} {
		for who, name := range map[byte]string{serverCloses: "server closes", clientCloses: "client closes"} {
			t.Run(fmt.Sprintf("%s, timestamps %s", name, timestamps), func(t *testing.T) {
				w := newWorld(t)
				w.sysctl(w.Client, "net.ipv4.tcp_timestamps", timestamps)
				// No TIME-WAIT at the client, or its kernel would not reuse the port.
				w.sysctl(w.Client, "net.ipv4.tcp_max_tw_buckets", "0")
				w.listenOn(webPort, unix.IPPROTO_TCP, 512).serve(oneShot)
				w.start(w.webConfig(webPort))
				for _, ipv6 := range families() {
					w.reuse(ipv6, who)
				}
			})
		}
	}
}

func (w *world) reuse(ipv6 bool, who byte) {
	t := w.t
	t.Helper()
	before, retransBefore := w.counters(), netstat(t, w.Client, "TcpExt", "TCPSynRetrans")
	for i := range reuseRequests {
		port := uint16(firstPort + i%reusePorts)
		err := w.request(ipv6, port, who)
		for tries := 1; errors.Is(err, unix.EADDRNOTAVAIL) && tries < reusePorts; tries++ {
			// The client's own old socket waits for its last ACK. That is its kernel's
			// matter and nothing has been sent: the test takes the next port.
			port = firstPort + (port-firstPort+1)%reusePorts
			err = w.request(ipv6, port, who)
		}
		if err != nil {
			t.Fatalf("%s, request %d from port %d: %v; %v", familyName(ipv6), i, port, err, w.counters())
		}
	}
	after := w.counters()
	delta := func(name string) uint64 { return after[name] - before[name] }
	if n := netstat(t, w.Client, "TcpExt", "TCPSynRetrans") - retransBefore; n != 0 {
		t.Errorf("%s: %d SYNs had to be sent again", familyName(ipv6), n)
	}
	met := uint64(reuseRequests - reusePorts) // the first SYN of each port meets nothing
	if who == clientCloses {
		met = 0 // the client holds the TIME-WAIT, and the server none
	}
	// Sockets in LAST-ACK may be met in either case if the client is quick.
	translated := uint64(0)
	if harness.GenericXDP {
		// Without a NAPI of its own, a veth delivers a client's ACK and its data on two CPUs at the same time. If one is held up, the
		// adoption counts as failed, and the gate translates for a while.
		translated = delta("split_opened") - delta("adopt_unproven")
	}
	if delta("pass_existing") < met || delta("syn") != reuseRequests ||
		delta("adopted")+translated+delta("pass_existing") != reuseRequests {
		t.Errorf("%s: %d SYNs, %d adopted, %d translated, %d passed to existing sockets; want %d, the rest, at least %d",
			familyName(ipv6), delta("syn"), delta("adopted"), translated, delta("pass_existing"), reuseRequests, met)
	}
}
