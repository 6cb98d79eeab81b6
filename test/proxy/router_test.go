// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

func TestRouterEcho(t *testing.T) {
	for _, ipv6 := range families() {
		for _, size := range []int{8, 3000} {
			t.Run(fmt.Sprint(familyName(ipv6), size), func(t *testing.T) {
				w := router(t)
				if n := w.echoes(w.Client, w.ServiceAddr(ipv6, 0).Addr(), 5, size); n != 5 {
					t.Errorf("5 echo requests to the server had %d answers", n)
				}
				if n := w.echoes(w.Server, clientAddr(ipv6), 5, size); n != 5 {
					t.Errorf("5 echo requests to the client had %d answers", n)
				}
				if n := w.echoes(w.Client, w.BoxAddr(ipv6), 5, size); n != 5 {
					t.Errorf("5 echo requests to the box had %d answers", n)
				}
			})
		}
	}
}

func TestRouterDatagrams(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			w.echoDatagrams(w.ServiceAddr(ipv6, port))
			d := w.datagrams(w.Client, w.ServiceAddr(ipv6, port), 64, false)
			for _, size := range []int{1, 17, 1400, 4000} { // the last in fragments
				if err := d.ask(size); err != nil {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
		})
	}
}

// Connections from empty tables, too: the SYN to the server is the box's own.
func TestRouterConnects(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			w.serve(echo)
			w.promptly(ipv6, w.forgetNeighbours)
		})
	}
}

func TestRouterTTL(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			d := w.datagrams(w.Client, w.ServiceAddr(ipv6, port), 1, false)
			_, _ = unix.Write(d.fd, []byte("x"))
			kind, code, _, err := d.icmpError(patience)
			if want := map[bool]uint8{false: 11, true: 3}[ipv6]; err != nil || kind != want || code != 0 {
				t.Errorf("type %d code %d, %v; want %d 0", kind, code, err, want)
			}
		})
	}
}

// The link behind the box has a smaller MTU: with DF the sender gets an ICMP error, without it the packet is fragmented.
func TestRouterSmallerLink(t *testing.T) {
	for _, ipv6 := range families() {
		for name, toServer := range map[string]bool{"to server": true, "to client": false} {
			t.Run(familyName(ipv6)+" "+name, func(t *testing.T) {
				w := router(t)
				from, to, out := w.Client, w.ServiceAddr(ipv6, port), w.InnerPort
				if !toServer {
					from, to, out = w.Server, netip.AddrPortFrom(clientAddr(ipv6), port), w.LegitPort
				}
				if err := out.SetMTU(smallMTU); err != nil {
					t.Fatal(err)
				}
				w.forgetNeighbours()
				var learnedMTU uint32
				w.await("an ICMP error that says so", func() bool {
					d := w.datagrams(from, to, 64, true)
					if _, err := unix.Write(d.fd, make([]byte, 1400)); err != nil {
						learnedMTU = smallMTU // learned already
						return true
					}
					kind, code, mtu, err := d.icmpError(300 * time.Millisecond) // it has the new MTU within a second
					learnedMTU = mtu
					return err == nil && (ipv6 && kind == 2 || !ipv6 && kind == 3 && code == 4)
				})
				if learnedMTU != smallMTU {
					t.Errorf("told of an MTU of %d, want %d", learnedMTU, smallMTU)
				}
				if ipv6 {
					return // only the sender fragments
				}
				at := &net.UDPAddr{Port: port}
				var sink *net.UDPConn
				receiver := map[bool]*rig.Namespace{true: w.Server, false: w.Client}[toServer]
				if err := receiver.Do(func() (err error) { sink, err = net.ListenUDP("udp4", at); return err }); err != nil {
					t.Fatal(err)
				}
				defer sink.Close()
				// A sender that does not know the MTU, or ignores it.
				if _, err := unix.Write(w.datagrams(from, to, 64, false).fd, make([]byte, 1400)); err != nil {
					t.Fatal(err)
				}
				w.sendUncut(from, to, 1400)
				_ = sink.SetReadDeadline(time.Now().Add(patience / 4))
				for i := range 2 {
					b := make([]byte, 2048)
					if n, err := sink.Read(b); n != 1400 {
						t.Errorf("datagram %d: %d bytes, %v", i, n, err)
					}
				}
			})
		}
	}
}

func TestRouterUnreachable(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			nobody, kind, code := netip.MustParseAddr("198.18.5.77"), uint8(3), uint8(1)
			if ipv6 {
				nobody, kind, code = netip.MustParseAddr("fd7d:7467:5::77"), 1, 3
			}
			d := w.datagrams(w.Client, netip.AddrPortFrom(nobody, port), 64, false)
			_, _ = unix.Write(d.fd, []byte("x"))
			k, c, _, err := d.icmpError(patience)
			if err != nil || k != kind || c != code {
				t.Errorf("type %d code %d, %v; want %d %d", k, c, err, kind, code)
			}
		})
	}
}

// A scan of a prefix for hosts that do not exist fills no table and delays no other traffic.
func TestRouterScanned(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := router(t)
			w.serve(echo)
			scan := func() {
				for i := range 2000 {
					to := netip.AddrFrom4([4]byte{198, 18, 5, byte(2 + i%250)})
					if ipv6 {
						b := netip.MustParseAddr("fd7d:7467:5::").As16()
						binary.BigEndian.PutUint16(b[14:], uint16(1000+i))
						to = netip.AddrFrom16(b)
					}
					_, _ = unix.Write(w.datagrams(w.Client, netip.AddrPortFrom(to, 9), 64, false).fd, []byte("x"))
				}
			}
			scan()
			w.promptly(ipv6, scan)
			// Without a bound all of them: 250 of IPv4, 1,000 or so of IPv6 (gc_thresh3).
			if n := len(w.neighbours("tg-inner")); n > 140 {
				t.Errorf("the scan has made %d entries in the kernel's table", n)
			}
		})
	}
}

// More routes than fit into any small table, each with a host behind it.
func TestRouterManyRoutes(t *testing.T) {
	w := newWorld(t, false)
	const routes = 1000
	var batch strings.Builder
	for i := range routes {
		fmt.Fprintf(&batch, "route add 10.%d.%d.0/24 via 198.18.4.2\n", i/256, i%256)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if err := w.Proxy.Do(cmd.Run); err != nil {
		t.Fatal(err)
	}
	w.start(w.config("cookie"))
	for _, i := range []int{0, 255, 256, 257, routes - 1} {
		addr := netip.AddrFrom4([4]byte{10, byte(i / 256), byte(i % 256), 1})
		w.ip(w.Server, fmt.Sprintf("addr add %v/32 dev lo", addr))
		if n := w.echoes(w.Client, addr, 3, 8); n != 3 {
			t.Errorf("%v: 3 echo requests had %d answers", addr, n)
		}
	}
}
