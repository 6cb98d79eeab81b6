// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"maps"
	mrand "math/rand/v2"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"tidegate/internal/ifp"
)

// nth is one of many filters of the usual lengths.
func nth(owner, i uint32) ifp.Filter {
	src := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|i)))
	dst := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 198<<24|owner)))
	return ifp.Filter{Src: netip.PrefixFrom(src, 32), Dst: netip.PrefixFrom(dst, 32), Action: ifp.Block, ExpiresS: 600}
}

// fillAs installs filters until one is refused, at most so many, and lets removed places rest in between.
func (t *Table) fillAs(owner uint32, most int) (n int, code ifp.Code) {
	for i := range uint32(most) {
		t.wake(time.Now().Add(time.Second))
		if code = t.installAs(nth(owner, i), owner, ifp.ByDestination); code != ifp.OK {
			return int(i), code
		}
	}
	return most, ifp.OK
}

// One network's filters were all that it took to fill the table for everybody else.
func TestOneOwnerCannotTakeTheTable(t *testing.T) {
	table := memoryTable(t, 1000)
	n, code := table.fillAs(1, 5000)
	if code != ifp.TableFull || n < 1000 || n != table.Len() {
		t.Fatalf("one network installed %d filters, then %v", n, code)
	}
	for others := 1; others <= 3; others++ {
		owner := uint32(others + 1)
		got, code := table.fillAs(owner, 5000)
		if want := n / (others + 1); code != ifp.TableFull || got < want || got > want+1 {
			t.Fatalf("network %d installed %d filters, then %v; want its share, %d", owner, got, code, want)
		}
		if table.Len() > n {
			t.Errorf("%d filters, more than the %d that fit", table.Len(), n)
		}
	}
}

// heldInTable counts the filters of each owner.
func heldInTable(t *Table) map[uint32]int {
	held := map[uint32]int{}
	t.eachSlot(func(slot uint32) {
		if t.entries[slot].Action != actionAllow {
			held[*t.ownerAt(slot)]++
		}
	})
	return held
}

// The next process knows whose filters are in the table.
func TestSharesSurviveARestart(t *testing.T) {
	n := BucketsFor(1000)
	tags, entries, keys := make([]byte, n*int(unsafe.Sizeof(bucket{}))), make([]byte, n*bucketSlots*int(unsafe.Sizeof(entry{}))), randomKeys()
	var settings Settings
	publish := func(t *Table) error { t.fillShapes(&settings, false); return nil }
	table, err := NewTable(tags, entries, keys, nil, publish)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := table.fillAs(1, 5000)
	table.fillAs(2, 100)
	if err := table.Except(keyOfFilter(nth(9, 9))); err != nil {
		t.Fatal(err)
	}
	if table, err = NewTable(tags, entries, keys, &settings, publish); err != nil {
		t.Fatal(err)
	}
	if want := map[uint32]int{1: all - 100, 2: 100}; !maps.Equal(table.held, want) || table.Len() != all {
		t.Errorf("after a restart: %v, want %v", table.held, want)
	}
	if got, _ := table.fillAs(3, 5000); got != all/3 {
		t.Errorf("network 3 installed %d filters, want its share, %d", got, all/3)
	}
	if table.held[2] != 100 {
		t.Errorf("network 2 has %d filters left of 100, though it had less than its share", table.held[2])
	}
}

// Expired filters that nobody has removed yet make room first.
func TestExpiredFiltersMakeRoom(t *testing.T) {
	table := memoryTable(t, 1000)
	all, _ := table.fillAs(1, 5000)
	table.wake(time.Now().Add(time.Second))
	var code [1]ifp.Code
	table.InstallGranted([]ifp.Filter{nth(2, 0)}, []ifp.Grant{{Rights: ifp.ByDestination, Owner: 2}}, code[:], 601)
	if code[0] != ifp.OK || table.Displaced() != 0 || table.Len() != all {
		t.Errorf("%v, %d displaced, %d filters", code[0], table.Displaced(), table.Len())
	}
}

// Whatever networks do: the table counts right, never holds more than fits, and nobody with no more than a share loses a filter.
func TestSharesProperty(t *testing.T) {
	random := mrand.New(mrand.NewPCG(7, 1))
	table := memoryTable(t, 160)
	refused := 0
	for round := range 30_000 {
		table.wake(time.Now().Add(time.Second))
		owner, i := uint32(1+random.IntN(6)), uint32(random.IntN(150))
		before := maps.Clone(table.held)
		if random.IntN(4) == 0 {
			table.removeOne(keyOfFilter(nth(owner, i)), ifp.Grant{Rights: ifp.ByDestination, Owner: owner})
		} else if table.installAs(nth(owner, i), owner, ifp.ByDestination) != ifp.OK {
			refused++
			share := table.Capacity() / max(len(table.held), 1)
			if table.held[owner] < share {
				t.Fatalf("round %d: refused with %d filters, less than a share of %d", round, table.held[owner], share)
			}
		}
		for other, had := range before {
			if share := table.Capacity() / max(len(table.held), 1); other != owner && table.held[other] < had && had <= share {
				t.Fatalf("round %d: network %d has lost a filter of %d, its share is %d", round, other, had, share)
			}
		}
		if round%100 == 0 && !maps.Equal(table.held, heldInTable(table)) {
			t.Fatalf("round %d: %v counted, %v in the table", round, table.held, heldInTable(table))
		}
		if table.Len() > table.Capacity() {
			t.Fatalf("round %d: %d filters", round, table.Len())
		}
	}
	if refused == 0 || table.Displaced() == 0 {
		t.Errorf("%d were refused and %d displaced: the table was never full", refused, table.Displaced())
	}
}
