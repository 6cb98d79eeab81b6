// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net"
	"testing"
	"time"

	"tidegate/internal/binding"
)

// stall opens connections that never say anything, from as many addresses as it is
// given, until the listener has taken all of them or closed them.
func stall(t *testing.T, to string, count int, from func(i int) string) {
	t.Helper()
	for i := range count {
		at, err := net.ResolveTCPAddr("tcp", from(i))
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&net.Dialer{LocalAddr: at, Timeout: patience}).Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
}

// A friend is connected at once, whoever else keeps handshakes open.
func TestStalledHandshakes(t *testing.T) {
	for name, from := range map[string]func(int) string{
		"from one address":      func(int) string { return "127.0.0.2:0" },
		"from three hundred":    func(i int) string { return fmt.Sprintf("127.0.%d.%d:0", 1+i/200, 1+i%200) },
		"from the friend's own": func(int) string { return "127.0.0.1:0" },
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, "hub", memory(t), Options{Listen: "127.0.0.1:0", Neighbours: []Neighbour{{Key: publicKey("friend")}}})
			defer hub.Close()
			cert, err := certificate(privateKey("friend"))
			if err != nil {
				t.Fatal(err)
			}
			stall(t, hub.Addr().String(), 300, from)
			begin := time.Now()
			ok := greets(t, hub.Addr().String(), tlsConfig(cert, func(binding.Key) error { return nil }))
			took := time.Since(begin)
			if name == "from the friend's own" { // nothing tells him from the attacker: until those time out
				if ok {
					t.Error("one network holds more handshakes than it may")
				}
				return
			}
			if !ok || took > handshakeTime/2 {
				t.Errorf("a friend beside 300 stalled handshakes: connected %v after %v", ok, took)
			}
		})
	}
}
