// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
)

// inFragments splits a frame with a segment of at least 48 bytes in two; the first part has the
// whole TCP header and 20 more bytes.
func inFragments(frame []byte, id uint16) [][]byte {
	const ethLen, first = 14, 40
	if frame[ethLen]>>4 == 6 {
		const hdr = ethLen + 40
		part := func(seg []byte, word uint16) []byte {
			f := append([]byte(nil), frame[:hdr]...)
			binary.BigEndian.PutUint16(f[ethLen+4:], uint16(8+len(seg)))
			f[ethLen+6] = unix.IPPROTO_FRAGMENT
			f = append(f, unix.IPPROTO_TCP, 0, byte(word>>8), byte(word), 0, 0, byte(id>>8), byte(id))
			return append(f, seg...)
		}
		return [][]byte{part(frame[hdr:hdr+first], 1), part(frame[hdr+first:], first)}
	}
	const hdr = ethLen + 20
	part := func(seg []byte, word uint16) []byte {
		f := append([]byte(nil), frame[:hdr]...)
		ip := f[ethLen:]
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(seg)))
		binary.BigEndian.PutUint16(ip[4:], id)
		binary.BigEndian.PutUint16(ip[6:], word)
		binary.BigEndian.PutUint16(ip[10:], 0)
		var sum uint32
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum&0xffff+sum>>16))
		return append(f, seg...)
	}
	return [][]byte{part(frame[hdr:hdr+first], 0x2000), part(frame[hdr+first:], first/8)}
}

// ACKs of no connection, in fragments: a server drops them as it does whole
// ones, without a RST, which would reveal what its edge has forwarded.
func TestUnmatchedFragments(t *testing.T) {
	t.Run("adopt", func(t *testing.T) { unmatchedFragments(t, nil) })
	t.Run("translate", func(t *testing.T) { unmatchedFragments(t, []string{"takeover: translate"}) })
}

func unmatchedFragments(t *testing.T, server []string) {
	const n = 100
	w := newSplit(t, false, nil, server)
	w.Edge.configure("always", "unknown_rate: all", "learning: 0s")
	w.serve(echo)
	w.startBoth()
	for _, ipv6 := range families() {
		src := netip.MustParseAddr(map[bool]string{false: "192.0.2.66", true: "2001:db8::66"}[ipv6])
		resets, heard := w.netstat(w.place.Server, "OutRsts"), w.netstat(w.place.Server, "InSegs")
		before := w.server.counters()["drop_unmatched_ack"]
		var frames [][]byte
		for i := range uint16(n) {
			f := load.Frame{To: w.FloodPort.MAC, From: w.AttackerPort.MAC, Src: netip.AddrPortFrom(src, 1024+i), Dst: w.address(ipv6, port),
				Flags: load.FlagACK, Seq: uint32(i), Ack: 4711, Window: 1000, Payload: make([]byte, 100)}
			parts := inFragments(f.Bytes(), 7000+i)
			frames = append(frames, parts[1], parts[0]) // the first part completes the datagram
		}
		if err := load.SendFrames(w.AttackerPort, frames...); err != nil {
			t.Fatal(err)
		}
		w.await("fragments at the final check", func() bool { return w.server.counters()["drop_unmatched_ack"]-before >= n })
		if got := w.netstat(w.place.Server, "InSegs") - heard; got != 0 {
			t.Errorf("%s: %d of %d reached the server's TCP", familyName(ipv6), got, n)
		}
		if got := w.netstat(w.place.Server, "OutRsts") - resets; got != 0 {
			t.Errorf("%s: %d RSTs", familyName(ipv6), got)
		}
	}
}

// A connection continues whose client's segments are fragmented by a router on the path.
func TestFragmentsOfAConnection(t *testing.T) {
	w := newWorld(t, false)
	accepted := make(chan *net.TCPConn, 1)
	w.serve(func(c *net.TCPConn) { accepted <- c })
	w.startBoth()
	w.ip(w.Proxy, "link set tg-inner mtu 1000")
	c, err := w.dial(false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctl := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	}); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	server := <-accepted
	defer server.Close()
	w.move(c, server)
	if w.netstat(w.place.Server, "ReasmOKs") == 0 {
		t.Error("nothing came in fragments")
	}
	w.server.wantCounters(map[string]uint64{"drop_unmatched_ack": 0})
}
