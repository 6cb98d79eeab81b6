// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"tidegate/internal/p4"
	"tidegate/internal/vectors"
)

// icmpError is an error from a router about a segment whose first `quoted` bytes of TCP
// it quotes, with options in the quoted IPv4 header if `long`.
func icmpError(router, to netip.Addr, segment []byte, kind byte, quoted int, long bool) []byte {
	const eth = 14
	head := 40
	if router.Is4() {
		head = 20
	}
	quote := bytes.Clone(segment[eth : eth+head+quoted])
	if long {
		quote[0]++
		quote = append(append(bytes.Clone(quote[:head]), 1, 1, 1, 0), quote[head:]...)
	}
	icmp := append([]byte{kind, 4, 0, 0, 0, 0, 3, 0xe8}, quote...)
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10}
	ends := append(router.AsSlice(), to.AsSlice()...)
	if router.Is4() {
		binary.BigEndian.PutUint16(icmp[2:], internetSum(icmp))
		ip := append([]byte{0x45, 0, 0, byte(20 + len(icmp)), 0, 1, 0, 0, 60, 1, 0, 0}, ends...)
		binary.BigEndian.PutUint16(ip[10:], internetSum(ip))
		return append(append(append(frame, 8, 0), ip...), icmp...)
	}
	pseudo := append(append(bytes.Clone(ends), 0, 0, 0, byte(len(icmp)), 0, 0, 0, 58), icmp...)
	binary.BigEndian.PutUint16(icmp[2:], internetSum(pseudo))
	return append(append(append(frame, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 60), ends...), icmp...)
}

// TestCookieQuotes: ICMP errors about a translated connection quote the numbers that their
// receiver knows, in both directions and both families; all others pass unchanged.
func TestCookieQuotes(t *testing.T) {
	all, secret := loadSwitchVectors(t)
	b := newProxyBench(t, cookieProgram)
	if err := b.begin(p4.ProgramCookie, "table", secret, all.Epoch, []vectors.Service{all.Service}, "pass", false, 1); err != nil {
		t.Fatal(err)
	}
	const delta = 0x9abcdef1
	sent, translated := 0, 0
	for family, ends := range attackEnds {
		client, server, router := ends[0], ends[1], ends[0].Next().Next()
		var c, s [16]byte
		copy(c[16-len(client.AsSlice()):], client.AsSlice())
		copy(s[16-len(server.AsSlice()):], server.AsSlice())
		if err := b.controller.PutFlow(client.Is6(), c, s, 40000, 80, delta, 0, 0, 500); err != nil {
			t.Fatal(err)
		}
		kinds := []byte{3, 4, 11, 12}
		if client.Is6() {
			kinds = []byte{1, 2, 3, 4}
		}
		for _, toServer := range []bool{true, false} {
			for _, quoted := range []int{8, 12, 20} {
				for _, kind := range kinds {
					for _, long := range []bool{false, true} {
						if long && client.Is6() {
							continue
						}
						// As its sender sent it; at the router it has the other side's number.
						from, to, sport, dport, receiver := server, client, uint16(80), uint16(40000), server
						seq, ack, seenSeq, seenAck := uint32(5000), uint32(2000), uint32(5000), uint32(2000)
						seenSeq -= delta
						in, out := b.outside, b.inside
						if !toServer {
							from, to, sport, dport, receiver = client, server, 40000, 80, client
							seq, ack, seenSeq, seenAck = 2000, 5000, 2000, uint32(5000)
							seenAck += delta
							in, out = b.inside, b.outside
						}
						seen := frameOf(from, to, sport, dport, seenSeq, seenAck, 0x10)
						wanted := bytes.Clone(seen)
						at := len(wanted) - 20
						binary.BigEndian.PutUint32(wanted[at+4:], seq)
						binary.BigEndian.PutUint32(wanted[at+8:], ack)
						for what, c := range map[string][2][]byte{
							"of the connection": {icmpError(router, receiver, seen, kind, quoted, long), icmpError(router, receiver, wanted, kind, quoted, long)},
							"of another":        {icmpError(router, receiver, frameOf(from, to, sport^1, dport^1, 1, 2, 0x10), kind, quoted, long), nil},
							"of no error":       {icmpError(router, receiver, seen, 8, quoted, long), nil},
						} {
							want := c[1]
							if want == nil {
								want = c[0]
							}
							on, back, err := b.through(in, out, c[0])
							if err != nil || len(back) != 0 || len(on) != 1 || !bytes.Equal(on[0], want) {
								t.Errorf("%s, to the server %v, kind %d, %d bytes quoted, options %v, %s:\n  in %x\n got %x\nwant %x", family, toServer, kind, quoted, long, what, c[0], on, want)
							}
							sent++
							if !bytes.Equal(c[0], want) {
								translated++
							}
						}
					}
				}
			}
		}
	}
	counts, err := b.controller.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if got := counts[fmt.Sprint(all.Service.ID)]["icmp_translated"]; int(got) != translated || translated == 0 {
		t.Errorf("icmp_translated is %d, want %d", got, translated)
	}
	t.Logf("%d errors, %d of them translated", sent, translated)
}
