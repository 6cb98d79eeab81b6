// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// The stack still has a connection with the same addresses and ports, from before the gate. It is reset, and the SYN is
// reinjected to the stack, past XDP in generic mode, which sees reinjected packets and would answer it.
func TestOlderConnectionOfTheStack(t *testing.T) {
	w := newWorld(t, false)
	if err := w.ServerPort.DetachXDP(); err != nil {
		t.Fatal(err)
	}
	w.server.configure("always", "takeover: translate", "xdp_mode: generic")
	w.serve(func(c *net.TCPConn) {
		_, _ = c.Write([]byte("hello\n"))
		echo(c)
	})
	greeted := func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}
	for i, ipv6 := range families() {
		from := uint16(41000 + i)
		c, err := w.dial(ipv6, from)
		if err == nil {
			err = greeted(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		vanish(w.place.t, c)
	}
	w.server.start()
	for i, ipv6 := range families() {
		c, err := w.dial(ipv6, uint16(41000+i))
		if err == nil {
			defer c.Close()
			err = greeted(c)
		}
		if err != nil {
			t.Errorf("%s: %v; %v", familyName(ipv6), err, nonZero(w.server.counters()))
		}
	}
	n := uint64(len(families()))
	w.server.wantCounters(map[string]uint64{"split_older": n, "split_opened": n, "split_ready": n, "cookie_sent": n})
}
