// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

// syn is a SYN from the client's side to the service, in a frame of its own.
func (w *world) syn(ipv6 bool, sport uint16) *load.Frame {
	return &load.Frame{To: w.ServerPort.MAC, From: w.ClientPort.MAC, Src: netip.AddrPortFrom(w.ClientAddr(ipv6), sport),
		Dst: netip.AddrPortFrom(w.ServerAddr(ipv6), webPort), Flags: load.FlagSYN, Seq: uint32(sport), Window: 64240,
		Options: []byte{2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 4, 2}}
}

// answers counts the SYN-ACKs of the service for frames sent from the client's
// side, to any Ethernet address. The answer to a good SYN at the end shows that all have been seen.
func (w *world) answers(frames ...*load.Frame) int {
	w.t.Helper()
	tap, err := load.NewFrameTap(w.ClientPort)
	w.must(err)
	defer tap.Close()
	const lastPort = 999
	last := w.syn(false, lastPort)
	var raw [][]byte
	for _, f := range append(frames, last) {
		raw = append(raw, f.Bytes())
	}
	w.must(load.SendFrames(w.ClientPort, raw...))
	isAnswer := func(b []byte, port uint16) bool {
		if len(b) < 54 {
			return false
		}
		tcp := b[34:]
		if b[12] == 0x86 {
			tcp = b[54:]
		}
		return len(tcp) >= 20 && load.TCPFlags(tcp[13]) == load.FlagSYN|load.FlagACK && binary.BigEndian.Uint16(tcp) == webPort &&
			(port == 0 || binary.BigEndian.Uint16(tcp[2:]) == port)
	}
	list, seen := tap.Frames(time.Now().Add(patience), func(b []byte) bool { return isAnswer(b, lastPort) })
	if !seen {
		w.t.Fatal("the good SYN was not answered")
	}
	n := 0
	for _, b := range list {
		if isAnswer(b, 0) {
			n++
		}
	}
	return n
}

// The kernel ignores a SYN with a wrong checksum or a source route; so does the gate.
func TestBadChecksums(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	const n = 100
	for name, spoil := range map[string]func(f *load.Frame){
		"TCP":  func(f *load.Frame) { f.TCPSum = func(right uint16) uint16 { return right ^ 0x0100 } },
		"zero": func(f *load.Frame) { f.TCPSum = func(uint16) uint16 { return 0 } },
		"TCP of the slow path": func(f *load.Frame) {
			f.Payload, f.TCPSum = []byte("data"), func(right uint16) uint16 { return right + 1 }
		},
		"IPv4": func(f *load.Frame) { f.IPSum = func(right uint16) uint16 { return right ^ 1 } },
		"source route": func(f *load.Frame) {
			f.IPOptions = []byte{0x83, 7, 4, 192, 0, 2, 1, 1}
		},
	} {
		for _, ipv6 := range families() {
			if ipv6 && (name == "IPv4" || name == "source route") {
				continue
			}
			var bad []*load.Frame
			for i := range n {
				f := w.syn(ipv6, uint16(2000+i))
				spoil(f)
				bad = append(bad, f)
			}
			if got := w.answers(bad...); got != 0 {
				t.Errorf("%s, %s: %d of %d answered", familyName(ipv6), name, got, n)
			}
		}
	}
	if c := w.counters(); c["drop_checksum"] < 4*n || c["drop_source_route"] != n {
		t.Errorf("drop_checksum %d, drop_source_route %d", c["drop_checksum"], c["drop_source_route"])
	}
	w.mustPingNew(1)
}

// A client on the same machine leaves checksums to a device that does not exist: containers do so
// by default, and are served as others are, with either takeover.
func TestChecksumsLeftToTheDevice(t *testing.T) {
	for takeover, taken := range map[string]string{"auto": "adopted", "translate": "split_ready"} {
		t.Run(takeover, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.ClientPort.EnableTxChecksum())
			w.echoServer(webPort)
			w.start(w.webConfig(webPort, "takeover: "+takeover))
			w.mustPingNew(5)
			n := uint64(5 * len(families()))
			w.wantCounters(map[string]uint64{"syn": n, "cookie_sent": n, taken: n, "drop_checksum": 0})
			for _, ipv6 := range families() {
				var partial []*load.Frame
				for i := range 20 {
					f := w.syn(ipv6, uint16(3000+i))
					f.TCPSum = func(uint16) uint16 { return f.PseudoSum() }
					partial = append(partial, f)
				}
				if got := w.answers(partial...); got != len(partial) {
					t.Errorf("%s: %d of %d with the pseudo-header's sum answered", familyName(ipv6), got, len(partial))
				}
			}
		})
	}
}
