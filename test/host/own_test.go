// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

// SYNs that the kernel would not take for its own are not answered: the kernel drops them, or
// gives them to whom they are for.
func TestFramesOfOthers(t *testing.T) {
	const n = 20
	w := newWorld(t)
	w.echoServer(webPort)
	w.ip(w.Server, "address add 198.18.3.9/32 dev lo")
	w.start(w.webConfig(webPort))
	foreign := net.HardwareAddr{2, 0, 0, 0xbe, 0xef, 1}
	for name, c := range map[string]struct {
		v4, v6 bool
		spoil  func(f *load.Frame)
	}{
		"foreign MAC":            {true, true, func(f *load.Frame) { f.To = foreign }},
		"group source MAC":       {true, true, func(f *load.Frame) { f.From = net.HardwareAddr{1, 0, 0x5e, 0, 0, 1} }},
		"broadcast source MAC":   {true, true, func(f *load.Frame) { f.From = net.HardwareAddr{255, 255, 255, 255, 255, 255} }},
		"not a local address":    {true, false, func(f *load.Frame) { f.Dst = to("198.18.3.77") }},
		"not a local address v6": {false, true, func(f *load.Frame) { f.Dst = to("fd7d:7467:4::77") }},
		"subnet's broadcast":     {true, false, func(f *load.Frame) { f.Dst = to("198.18.3.255") }},
		"same slot as our own":   {true, false, func(f *load.Frame) { f.Dst = to("198.18.9.1") }},
		"127.0.0.1":              {true, false, func(f *load.Frame) { f.Dst = to("127.0.0.1") }},
		"127.8.8.8":              {true, false, func(f *load.Frame) { f.Dst = to("127.8.8.8") }},
		"::1":                    {false, true, func(f *load.Frame) { f.Dst = to("::1") }},
		"own address as source": {true, true, func(f *load.Frame) {
			f.Src = netip.AddrPortFrom(f.Dst.Addr(), 4000)
		}},
		"another own address as source": {true, false, func(f *load.Frame) { f.Src = netip.AddrPortFrom(netip.MustParseAddr("198.18.3.9"), 4000) }},
		"on the slow path":              {true, true, func(f *load.Frame) { f.To, f.Payload = foreign, []byte("data") }},
	} {
		for _, ipv6 := range families() {
			if ipv6 && !c.v6 || !ipv6 && !c.v4 {
				continue
			}
			var frames []*load.Frame
			for i := range n {
				f := w.syn(ipv6, uint16(2000+i))
				c.spoil(f)
				frames = append(frames, f)
			}
			if got := w.answers(frames...); got != 0 {
				t.Errorf("%s, %s: %d of %d answered", familyName(ipv6), name, got, n)
			}
		}
	}
	if c := w.counters(); c["pass_frame"] == 0 || c["drop_source"] == 0 {
		t.Errorf("counted: %v", c)
	}
	w.mustPingNew(1)
}

// An ACK whose cookie is right, in a frame to another MAC address, makes no connection: the kernel drops it, and what
// was made for it would be nobody's, in the table of translated ones for `idle_time`.
func TestACKsInFramesOfOthers(t *testing.T) {
	for _, takeover := range []string{"auto", "translate"} {
		t.Run(takeover, func(t *testing.T) {
			const n = 20
			w := newWorld(t)
			w.echoServer(webPort)
			w.start(w.webConfig(webPort, "takeover: "+takeover))
			w.nft(w.Client, "table inet quiet { chain o { type filter hook output priority 0; tcp flags rst drop; }; }")
			for _, ipv6 := range families() {
				for _, ack := range w.acks(ipv6, n) {
					ack.To = net.HardwareAddr{2, 0, 0, 0xbe, 0xef, 1}
					w.must(load.SendFrames(w.ClientPort, ack.Bytes()))
				}
			}
			good := w.acks(false, 1)[0] // behind them, in the same queue
			w.must(load.SendFrames(w.ClientPort, good.Bytes()))
			w.await("the good ACK", func() bool { c := w.counters(); return c["adopted"]+c["split_opened"] > 0 })
			c := w.counters()
			want := uint64(n * len(families()))
			if c["adopted"]+c["split_opened"] != 1 || c["ack_frame"] != want || c["adopt_unproven"] != 0 {
				t.Errorf("adopted %d, split_opened %d, adopt_unproven %d; ack_frame %d, want %d", c["adopted"], c["split_opened"], c["adopt_unproven"], c["ack_frame"], want)
			}
		})
	}
}

// acks are the final ACKs of n handshakes with the service, not sent.
func (w *world) acks(ipv6 bool, n int) (list []*load.Frame) {
	w.t.Helper()
	tap, err := load.NewFrameTap(w.ClientPort)
	w.must(err)
	defer tap.Close()
	for range n {
		syn := w.syn(ipv6, firstPort+w.nextPort)
		w.nextPort++
		w.must(load.SendFrames(w.ClientPort, syn.Bytes()))
		var tcp []byte
		_, seen := tap.Frames(time.Now().Add(patience), func(b []byte) bool {
			at := 34
			if ipv6 {
				at = 54
			}
			if len(b) < at+20 || binary.BigEndian.Uint16(b[at+2:]) != syn.Src.Port() || load.TCPFlags(b[at+13]) != load.FlagSYN|load.FlagACK {
				return false
			}
			tcp = b[at:]
			return true
		})
		if !seen {
			w.t.Fatal("a SYN was not answered")
		}
		list = append(list, &load.Frame{To: syn.To, From: syn.From, Src: syn.Src, Dst: syn.Dst, Flags: load.FlagACK, Window: syn.Window,
			Seq: syn.Seq + 1, Ack: binary.BigEndian.Uint32(tcp[4:]) + 1})
	}
	return list
}

func to(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), webPort) }
