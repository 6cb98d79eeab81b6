// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

const twoPorts = "services:\n  - name: web\n    ports: [\"%d-%d\"]\n    mode: always\n"

// ip runs iproute2's ip in a namespace.
func (w *world) ip(n *rig.Namespace, args string) {
	w.t.Helper()
	var out []byte
	err := n.Do(func() (err error) {
		out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		return err
	})
	if err != nil {
		w.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// A machine that forwards for others answers for its own addresses only, although its
// service names every address; and for addresses that it gets later.
func TestForwardedSYNsUntouched(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.sysctl(w.Server, "net.ipv4.ip_forward", "1")
	w.ip(w.Server, "route add unreachable 198.18.77.0/24")
	w.ip(w.Client, "route add 198.18.77.0/24 via "+w.ServerAddr(false).String())
	g := w.start(w.webConfig(webPort))
	g.AwaitLog("level=INFO", "only its own addresses are protected", w.ServerAddr(false).String())

	other := netip.AddrPortFrom(netip.MustParseAddr("198.18.77.1"), webPort)
	if _, err := (dialer{from: w.Client, to: other}).dial(); !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("a SYN for somebody else: %v, want the router's own answer, host unreachable", err)
	}
	w.wantCounters(map[string]uint64{"syn": 0})
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(len(families()))})

	w.ip(w.Server, "address add 198.18.77.1/32 dev lo")
	g.AwaitLog("level=INFO", "only its own addresses are protected", "198.18.77.1/32")
	c, err := (dialer{from: w.Client, to: other}).dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ping(); err != nil {
		t.Fatal(err)
	}
	w.wantCounters(map[string]uint64{"adopted": uint64(len(families())) + 1})
}

// The ports of a service without a listener refuse as they would without the gate.
func TestUnservedPortsRefuse(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	unserved := uint16(webPort + 1)
	g := w.start(w.topConfig() + fmt.Sprintf(twoPorts, webPort, unserved))
	for _, ipv6 := range families() {
		if _, err := w.dial(ipv6, unserved); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v, want a refusal", familyName(ipv6), err)
		}
	}
	w.mustPingNew(1)
	n := uint64(len(families()))
	w.wantCounters(map[string]uint64{"syn": n, "adopted": n})

	// Once there is a listener, the gate answers there, too.
	w.echoServer(unserved)
	g.Await("a cookie for the port that is served now", func() bool {
		before := w.counters()["adopted"]
		return w.pingNew(false, unserved) == nil && w.counters()["adopted"] == before+1
	})
}

// A port that a reload adds to the gate: existing connections
// are known, so a client that reboots during one gets through.
func TestReloadSeedsSocketFilter(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	added := uint16(webPort + 1)
	w.echoServer(added)
	g := w.start(w.webConfig(webPort))
	old := w.mustDial(false, added)
	own, err := unix.Getsockname(old.fd)
	if err != nil {
		t.Fatal(err)
	}
	g.Reload(w.topConfig()+fmt.Sprintf(twoPorts, webPort, added), "reloaded")
	if err := old.vanish(); err != nil {
		t.Fatal(err)
	}
	c, err := (dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(false), added), localPort: uint16(portOf(own))}).dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ping(); err != nil {
		t.Fatal(err)
	}
	if n := w.counters()["pass_existing"]; n == 0 {
		t.Error("the SYN on the live connection did not go to the kernel")
	}
}
