// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

const (
	xdpPass = 2
	xdpTX   = 3
)

// frame is an Ethernet frame with a UDP datagram.
func frame(src, dst netip.AddrPort, payload []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	udp := binary.BigEndian.AppendUint16(nil, src.Port())
	udp = binary.BigEndian.AppendUint16(udp, dst.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	if src.Addr().Is4() {
		ip := make([]byte, 20)
		ip[0], ip[8], ip[9] = 0x45, 64, 17
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(udp)))
		copy(ip[12:], src.Addr().AsSlice())
		copy(ip[16:], dst.Addr().AsSlice())
		return append(append(append(b, 8, 0), ip...), udp...)
	}
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, 17, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
	copy(ip[8:], src.Addr().AsSlice())
	copy(ip[24:], dst.Addr().AsSlice())
	return append(append(append(b, 0x86, 0xdd), ip...), udp...)
}

func sum16(parts ...[]byte) uint16 {
	s := uint32(0)
	for _, b := range parts {
		for i := 0; i+1 < len(b); i += 2 {
			s += uint32(b[i])<<8 | uint32(b[i+1])
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// The program answers as the daemon would, byte for byte of the message,
// and leaves everything else to it.
func TestNoncesByXDP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it loads BPF programs")
	}
	b, err := plane.LoadBorder()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	secret := keys.Secret{7}
	nonces := ifp.NewNonces(&secret, time.Now())
	p := netip.MustParsePrefix
	var list []ifp.Filter
	for i := range ifp.PerMessage(false) {
		list = append(list, ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 32), Dst: p("198.51.100.1/32"), Action: ifp.Block})
	}
	six := ifp.Filter{Src: p("2001:db8::1/128"), Dst: p("2001:db8:5::1/128"), Action: ifp.Block}
	run := func(in []byte) (uint32, []byte) {
		t.Helper()
		opts := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256)}
		v, err := b.Program().Run(&opts)
		if err != nil {
			t.Fatal(err)
		}
		return v, opts.DataOut
	}
	sent := uint64(0)
	for _, pair := range [][2]string{{"192.0.2.9:4746", "203.0.113.1:4747"}, {"[2001:db8:9::9]:4746", "[2001:db8:1::1]:4747"}} {
		from, to := netip.MustParseAddrPort(pair[0]), netip.MustParseAddrPort(pair[1])
		if err := b.Set(EarlySettings(nonces, to, 47)); err != nil {
			t.Fatal(err)
		}
		requests := map[string][]byte{
			"a proof":     ifp.AppendRequest(nil, ifp.Remove, ifp.FlagProof, 1<<63, 0, list[:2]),
			"statistics":  ifp.AppendRequest(nil, ifp.Stats, 0, 0, 0, list[:3]),
			"IPv6 filter": ifp.AppendRequest(nil, ifp.Conditional, 0, 5, 0, []ifp.Filter{six, list[0]}),
		}
		for n := 1; n <= len(list); n++ { // to the longest message
			requests[fmt.Sprintf("%d filters", n)] = ifp.AppendRequest(nil, ifp.Install, 0, 77, 0, list[:n])
		}
		for name, m := range requests {
			sent++
			v, out := run(frame(from, to, m))
			want := ifp.AppendNonce(nil, binary.BigEndian.Uint64(m[8:]), nonces.Make(from, m))
			if v != xdpTX || len(out) < len(want) || !bytes.Equal(out[len(out)-len(want):], want) {
				t.Fatalf("%s %s: verdict %d\n got %x\nwant %x", pair, name, v, out, want)
			}
			answer := frame(to, from, want) // as addressed, then the parts that differ
			copy(answer, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1})
			if from.Addr().Is4() {
				answer[15] = 47 << 2
				binary.BigEndian.PutUint16(answer[24:], ^sum16(answer[14:34]))
			} else {
				answer[14], answer[15] = 0x60|(47<<2)>>4, (47<<2&0xf)<<4
				u := answer[54:]
				pseudo := []byte{0, byte(len(u)), 0, 17}
				binary.BigEndian.PutUint16(u[6:], ^sum16(answer[22:54], pseudo, u))
			}
			if !bytes.Equal(out, answer) {
				t.Errorf("%s %s:\n got %x\nwant %x", pair, name, out, answer)
			}
		}
		first := ifp.AppendRequest(nil, ifp.Install, 0, 77, 0, list[:1])
		with := ifp.AppendRequest(nil, ifp.Install, 0, 77, 9, list[:1])
		for name, in := range map[string][]byte{
			"with a nonce":     frame(from, to, with),
			"an answer":        frame(from, to, ifp.AppendNonce(nil, 1, 0)),
			"length lies":      frame(from, to, append(bytes.Clone(first), 0)),
			"another port":     frame(from, netip.AddrPortFrom(to.Addr(), 1), first),
			"another address":  frame(from, netip.AddrPortFrom(from.Addr(), to.Port()), first),
			"cut":              frame(from, to, first)[:60],
			"version 2":        frame(from, to, append([]byte{2}, first[1:]...)),
			"nothing but head": frame(from, to, nil),
			"two buffers":      append(frame(from, to, first), make([]byte, 8000)...), // of an interface with MTU 9000
		} {
			if v, out := run(in); v != xdpPass || !bytes.Equal(out, in) {
				t.Errorf("%s %s: verdict %d, changed %v", pair, name, v, !bytes.Equal(out, in))
			}
		}
	}
	s := EarlySettings(nonces, netip.MustParseAddrPort("203.0.113.1:4747"), 47)
	s.UntilNs = 1
	if err := b.Set(s); err != nil {
		t.Fatal(err)
	}
	in := frame(netip.MustParseAddrPort("192.0.2.9:1"), netip.MustParseAddrPort("203.0.113.1:4747"), ifp.AppendRequest(nil, ifp.Install, 0, 77, 0, list[:1]))
	if v, _ := run(in); v != xdpPass {
		t.Errorf("with a key that is too old: verdict %d", v)
	}
	c, err := b.Counters()
	if err != nil || c["ifp_nonce_sent"] != sent || c["ifp_no_key"] != 1 {
		t.Errorf("counters %v %v", c, err)
	}
}
