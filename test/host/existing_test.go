// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// RFC 5961 and RFC 9293 3.10.7.4: the kernel answers a SYN on a live connection.
// A client that has rebooted and reuses the port gets a
// challenge ACK, resets the connection it does not know, and is let in.
func TestClientRebootsOnLiveConnection(t *testing.T) {
	for _, seeded := range []bool{false, true} {
		name := map[bool]string{false: "made through the gate", true: "older than the gate"}[seeded]
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
			if !seeded {
				w.start(w.webConfig(webPort))
			}
			type pair struct{ client, server conn }
			old := map[bool]pair{}
			for _, ipv6 := range families() {
				c, s := w.connectFrom(l, ipv6, firstPort)
				old[ipv6] = pair{c, s}
			}
			if seeded {
				w.start(w.webConfig(webPort))
			}
			w.awaitLiveSockets(len(old))
			for _, ipv6 := range families() {
				if err := old[ipv6].client.vanish(); err != nil {
					t.Fatal(err)
				}
				before := w.counters()
				c, s := w.connectFrom(l, ipv6, firstPort)
				if err := transfer(c, s, []byte("again")); err != nil {
					t.Errorf("%s: the new connection: %v", familyName(ipv6), err)
				}
				if _, err := old[ipv6].server.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
					t.Errorf("%s: the old connection at the server: %v, want a reset", familyName(ipv6), err)
				}
				// The first SYN met the old socket, the second one none.
				after := w.counters()
				for name, want := range map[string]uint64{"syn": 2, "pass_existing": 1, "adopted": 1} {
					if got := after[name] - before[name]; got != want {
						t.Errorf("%s: %s went up by %d, want %d", familyName(ipv6), name, got, want)
					}
				}
				c.Close()
				s.Close()
				old[ipv6].server.Close()
			}
			w.awaitLiveSockets(0)
		})
	}
}

// awaitLiveSockets waits until the socket filter counts n live sockets:
// it must see the close of every socket whose open it saw, or that tuple's SYNs take the slow check for ever.
func (w *world) awaitLiveSockets(n int) {
	w.t.Helper()
	m, err := ebpf.LoadPinnedMap(w.pinDir()+"/tg_sockets", &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Close()
	keys, cells := make([]uint32, m.MaxEntries()), make([]uint32, m.MaxEntries())
	w.await(fmt.Sprintf("%d live sockets in the filter", n), func() bool {
		read, err := m.BatchLookup(new(ebpf.MapBatchCursor), keys, cells, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			w.t.Fatal(err)
		}
		live := 0
		for _, cell := range cells[:read] {
			live += int(cell >> 16)
		}
		return live == 2*n // each has two cells
	})
}

// connectFrom opens a connection from a port and returns both ends.
func (w *world) connectFrom(l *listener, ipv6 bool, port uint16) (client, server conn) {
	w.t.Helper()
	return w.connect(l, ipv6, port, webPort)
}

// connect makes a connection from one port to another, where this listener is.
func (w *world) connect(l *listener, ipv6 bool, from, to uint16) (client, server conn) {
	w.t.Helper()
	client, err := dialer{from: w.Client, to: netip.AddrPortFrom(w.ServerAddr(ipv6), to), localPort: from}.dial()
	if err != nil {
		w.t.Fatalf("%s: connect from port %d: %v", familyName(ipv6), from, err)
	}
	server, err = l.accept()
	if err != nil {
		w.t.Fatalf("%s: accept: %v", familyName(ipv6), err)
	}
	w.t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// nft loads a table into a namespace. What it drops is lost as on a wire.
func (w *world) nft(n *rig.Namespace, rules string) { w.t.Helper(); harness.NFT(w.t, n, rules) }

// lose drops the first packet of the client's that matches and no other.
func (w *world) lose(hook, match string) { w.t.Helper(); harness.Lose(w.t, w.Client, hook, match) }

// The first SYN-ACK is lost: the client's second SYN is answered like the first.
func TestSYNRetransmitted(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.lose("input", "tcp flags & (syn | ack) == (syn | ack)")
	if err := w.pingNew(false, webPort); err != nil {
		t.Fatal(err)
	}
	w.wantCounters(map[string]uint64{"syn": 2, "cookie_sent": 2, "adopted": 1, "pass_existing": 0})
}

// The ACK that completes the handshake is lost: the client's data carry the same
// acknowledgment number, and establish the connection.
func TestLastACKLost(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.lose("output", "tcp flags == ack")
	if err := w.pingNew(false, webPort); err != nil {
		t.Fatal(err)
	}
	w.wantCounters(map[string]uint64{"syn": 1, "cookie_sent": 1, "adopted": 1, "cookie_invalid": 0})
}

// The accept queue is full when the client's ACK arrives. The kernel drops it; the
// following data still establish the connection as soon as there is room.
func TestAcceptQueueFull(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 1)
	w.start(w.webConfig(webPort, "epoch: 60s"))
	var clients []conn
	for range 4 { // two find room: the queue holds one more than the backlog
		clients = append(clients, w.mustDial(false, webPort))
	}
	late := clients[3]
	if _, err := late.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	w.await("the kernel drops the ACK", func() bool {
		return netstat(t, w.Server, "TcpExt", "ListenOverflows") > 0
	})
	if n := queued(t, l); n != 2 {
		t.Fatalf("%d connections wait, the test expects 2", n)
	}
	seen := 0
	for range clients {
		s, err := l.accept()
		if err != nil {
			break // clients[2] has sent nothing: only the client can detect its loss
		}
		seen++
		defer s.Close()
		if peer, err := unix.Getpeername(s.fd); err != nil || !samePort(peer, late) {
			continue
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "late" {
			t.Fatalf("the late connection says %q, %v", got, err)
		}
		return
	}
	t.Errorf("%d connections came, the late one was not among them; %v", seen, w.counters())
}

// samePort reports whether a peer's address is c's local one.
func samePort(peer unix.Sockaddr, c conn) bool {
	own, err := unix.Getsockname(c.fd)
	if err != nil {
		return false
	}
	return portOf(own) == portOf(peer)
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return -1
}

// queued is the length of the accept queue.
func queued(t *testing.T, l *listener) uint32 {
	t.Helper()
	info, err := conn{fd: l.fd}.info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Unacked
}

// The client's data follow its ACK immediately, in one batch of frames, as from
// a network card. Neither may be lost: a retransmission is a pause of 200 ms.
func TestDataRightBehindACK(t *testing.T) {
	for name, more := range map[string][]string{"as it is": nil, "generic XDP, which takes the Ethernet header off": {"takeover: adopt", "xdp_mode: generic"}} {
		t.Run(name, func(t *testing.T) { dataRightBehindACK(t, more...) })
	}
}

func dataRightBehindACK(t *testing.T, more ...string) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.sysctl(w.Client, "net.ipv4.tcp_max_tw_buckets", "0")
	w.start(w.webConfig(webPort, more...))
	// A thread polls the server's port, so that frames queue up. The
	// client's loss probe is off: a segment is retransmitted only if it was lost.
	w.sysctl(w.Client, "net.ipv4.tcp_early_retrans", "0")
	w.threadedNAPI()
	const n = 500
	for i := range n {
		if err := w.pingNew(false, webPort); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if again := netstat(t, w.Client, "Tcp", "RetransSegs"); again != 0 {
		t.Errorf("%d segments had to be sent again", again)
	}
	w.wantCounters(map[string]uint64{"syn": n, "adopted": n})
}

// threadedNAPI lets a kernel thread poll the server's port.
func (w *world) threadedNAPI() {
	w.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", w.Server.Name, // for its own /sys
		"sh", "-c", "echo 1 >/sys/class/net/"+w.ServerPort.Name+"/threaded").CombinedOutput()
	if err != nil {
		w.t.Fatalf("threaded NAPI: %v: %s", err, out)
	}
}
