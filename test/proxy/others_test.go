// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Traffic that the box must not touch: to no service, connections that servers
// begin, and the box's own.

// clientAddr is the address of the client's machine.
func clientAddr(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr("fd7d:7467:2::2")
	}
	return netip.MustParseAddr("198.18.2.2")
}

// echoAt has a machine echo at a TCP port, whatever the address.
func (w *world) echoAt(n *rig.Namespace, port uint16) {
	w.t.Helper()
	harness.Server{}.Serve(w.t, n, fmt.Sprintf(":%d", port), echo)
}

// talk has a word echoed between two machines.
func (w *world) talk(from *rig.Namespace, network string, to netip.AddrPort) error {
	return from.Do(func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), patience/4)
		defer cancel()
		var d net.Dialer
		d.SetMultipathTCP(false)
		c, err := d.DialContext(ctx, network, to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience / 4))
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			return fmt.Errorf("got %q, %w", b, err)
		}
		return nil
	})
}

func TestOthersTraffic(t *testing.T) {
	const other = 8080
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			for _, n := range []*rig.Namespace{w.Client, w.Server, w.Proxy} {
				w.echoAt(n, other)
				w.echoAt(n, port)
			}
			for _, ipv6 := range families() {
				w.echoDatagrams(w.ServiceAddr(ipv6, port))
			}
			w.start(w.config("cookie")) // port 80 of every address
			check := func(what string, from *rig.Namespace, network string, to netip.AddrPort) {
				t.Helper()
				if err := w.talk(from, network, to); err != nil {
					t.Errorf("%s, %s %v: %v", what, network, to, err)
				}
			}
			for _, ipv6 := range families() {
				check("a port that is no service's", w.Client, "tcp", w.ServiceAddr(ipv6, other))
				check("datagrams to a service's port", w.Client, "udp", w.ServiceAddr(ipv6, port))
				check("what a server begins", w.Server, "tcp", netip.AddrPortFrom(clientAddr(ipv6), other))
			}
			w.wantCounters(map[string]uint64{"syn": 0, "flow_opened": 0})
			if bridge {
				return // it has no addresses
			}
			for _, ipv6 := range families() {
				check("what the box begins", w.Proxy, "tcp", w.ServiceAddr(ipv6, port))
				check("what the box begins elsewhere", w.Proxy, "tcp", w.ServiceAddr(ipv6, other))
				check("the box's own server, at another port", w.Client, "tcp", netip.AddrPortFrom(w.BoxAddr(ipv6), other))
				check("the box's own server, at a service's port", w.Client, "tcp", netip.AddrPortFrom(w.BoxAddr(ipv6), port))
			}
			w.wantCounters(map[string]uint64{"syn": 0, "flow_opened": 0})
			// To the outside at a service's port: a service of every address covers
			// that, too, and the server is then a client like others.
			for _, ipv6 := range families() {
				check("what a server begins, at a service's port", w.Server, "tcp", netip.AddrPortFrom(clientAddr(ipv6), port))
			}
		})
	}
}

// echoDatagrams is UDP's echo, at the server's address.
func (w *world) echoDatagrams(at netip.AddrPort) {
	w.t.Helper()
	var c *net.UDPConn
	err := w.Server.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 65536)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(b[:n], from)
		}
	}()
}
