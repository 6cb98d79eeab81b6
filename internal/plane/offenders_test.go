// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
)

// Every slot of every CPU is read, in the same order each time.
func TestReadProven(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a BPF map")
	}
	p, err := Load(Options{KeySlots: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	m := p.Map(OffendersMap)
	last := m.MaxEntries() - 1
	for _, slot := range []uint32{0, last} {
		values := make([]Proven, cpus)
		for cpu := range values {
			values[cpu].Handshakes = slot + uint32(cpu) + 1
		}
		if err := m.Put(slot, values); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := ReadProven(m)
	if err != nil || len(rows) != int(last+1)*cpus {
		t.Fatalf("%d rows of %d slots and %d CPUs: %v", len(rows), last+1, cpus, err)
	}
	for cpu := range cpus {
		if a, b := rows[cpu].Handshakes, rows[int(last)*cpus+cpu].Handshakes; a != uint32(cpu)+1 || b != last+uint32(cpu)+1 {
			t.Errorf("CPU %d: %d and %d", cpu, a, b)
		}
	}
}

func TestProvenAddr(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "2001:db8::1:2"} {
		a := netip.MustParseAddr(text)
		var b [16]byte
		copy(b[:], a.AsSlice())
		words := [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
		if got := ProvenAddr(map[bool]uint8{true: 4, false: 6}[a.Is4()], words); got != a {
			t.Errorf("%s became %s", a, got)
		}
	}
	if ProvenAddr(5, [2]uint64{1, 1}).IsValid() {
		t.Error("an address of no family")
	}
}
