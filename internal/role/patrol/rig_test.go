// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
)

// The program under test, run on single frames (BPF_PROG_TEST_RUN), and frames for it.

const (
	testCodepoint = 47
	portCustomer  = 1 // the loopback's index, which PROG_TEST_RUN uses
)

// rig is a patrol's plane without interfaces; frames come by BPF_PROG_TEST_RUN.
type rig struct {
	t      *testing.T
	plane  *plane.Patrol
	patrol *Filters
}

func newRig(t *testing.T, capacity int) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it loads BPF programs")
	}
	p, err := plane.LoadPatrol(plane.PatrolOptions{Buckets: BucketsFor(capacity), Codepoint: testCodepoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	f, err := NewFilters(p, testCodepoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, p, f}
}

func (r *rig) port(direction, mark uint8) {
	r.t.Helper()
	if err := r.plane.SetPort(portCustomer, plane.PatrolPort{Direction: direction, Mark: mark}); err != nil {
		r.t.Fatal(err)
	}
}

const (
	xdpDrop = 1
	xdpPass = 2
)

func (r *rig) run(frame []byte) (verdict uint32, out []byte) {
	r.t.Helper()
	out = make([]byte, len(frame)+64)
	xdp, _ := r.plane.Programs()
	opts := ebpf.RunOptions{Data: frame, DataOut: out}
	v, err := xdp.Run(&opts)
	if err != nil {
		r.t.Fatal(err)
	}
	return v, opts.DataOut
}

// packet makes a UDP frame; tags are VLAN tags in front.
func packet(src, dst string, tclass uint8, tags ...uint16) []byte {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	b := make([]byte, 12)
	for i, tag := range tags {
		tpid := uint16(0x8100)
		if len(tags) == 2 && i == 0 {
			tpid = 0x88a8
		}
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tpid), tag)
	}
	if s.Is4() {
		b = binary.BigEndian.AppendUint16(b, 0x0800)
		ip := make([]byte, 28)
		ip[0], ip[1], ip[8], ip[9] = 0x45, tclass, 64, 17
		binary.BigEndian.PutUint16(ip[2:], 28)
		copy(ip[12:], s.AsSlice())
		copy(ip[16:], d.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
		return append(b, append(ip, make([]byte, 18)...)...)
	}
	b = binary.BigEndian.AppendUint16(b, 0x86dd)
	ip := make([]byte, 48)
	ip[0], ip[1] = 0x60|tclass>>4, tclass<<4
	ip[5], ip[6], ip[7] = 8, 17, 64
	copy(ip[8:], s.AsSlice())
	copy(ip[24:], d.AsSlice())
	return append(b, ip...)
}

func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// marked is the frame with another DSCP, every byte right.
func marked(frame []byte, dscp uint8) []byte {
	out := append([]byte(nil), frame...)
	off := 14
	for binary.BigEndian.Uint16(out[off-2:]) == 0x8100 || binary.BigEndian.Uint16(out[off-2:]) == 0x88a8 {
		off += 4
	}
	ip := out[off:]
	if ip[0]>>4 == 4 {
		ip[1] = dscp<<2 | ip[1]&3
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
		return out
	}
	tclass := ip[0]<<4 | ip[1]>>4
	tclass = dscp<<2 | tclass&3
	ip[0], ip[1] = 0x60|tclass>>4, tclass<<4|ip[1]&0xf
	return out
}

func (r *rig) expect(name string, in []byte, verdict uint32, out []byte, counter string) {
	r.t.Helper()
	before, err := r.plane.CountersNow()
	if err != nil {
		r.t.Fatal(err)
	}
	v, got := r.run(in)
	if v != verdict {
		r.t.Errorf("%s: verdict %d, want %d", name, v, verdict)
		return
	}
	if verdict == xdpPass && string(got) != string(out) {
		r.t.Errorf("%s:\n got %x\nwant %x", name, got, out)
	}
	after, err := r.plane.CountersNow()
	if err != nil {
		r.t.Fatal(err)
	}
	changed := 0
	for k, n := range after {
		if n != before[k] && k != "patrol_from" && k != "patrol_to" {
			changed++
			if k != counter || n != before[k]+1 {
				r.t.Errorf("%s: counter %s went from %d to %d", name, k, before[k], n)
			}
		}
	}
	if counter != "" && changed != 1 {
		r.t.Errorf("%s: %s was not counted", name, counter)
	}
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}
