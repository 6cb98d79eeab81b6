// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	mrand "math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/ifp"
)

func memoryTable(t *testing.T, capacity int) *Table {
	t.Helper()
	table, err := NewMemoryTable(capacity)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (t *Table) installAs(f ifp.Filter, owner uint32, right ifp.Right) ifp.Code {
	var code [1]ifp.Code
	t.InstallGranted([]ifp.Filter{f}, []ifp.Grant{{Rights: right, Owner: owner}}, code[:], 1)
	return code[0]
}

// wide is a filter with these prefix lengths.
func wide(srcBits, dstBits int, direction ifp.Direction) ifp.Filter {
	return ifp.Filter{Src: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), srcBits).Masked(),
		Dst: netip.PrefixFrom(netip.MustParseAddr("198.18.0.0"), dstBits).Masked(), Action: ifp.Block, Direction: direction}
}

// Eight wide filters of one requester were all that it took to lock everybody else out.
func TestOneOwnerCannotTakeAllPlaces(t *testing.T) {
	for _, direction := range []ifp.Direction{ifp.FromCustomer, ifp.ToCustomer} {
		table := memoryTable(t, 10_000)
		own := shapesMax - openPlaces[direction]
		for i := range 20 {
			code := table.installAs(wide(4+i%20, 32, direction), 1, ifp.ByDestination)
			if want := map[bool]ifp.Code{true: ifp.OK, false: ifp.OverShare}[i < own]; code != want {
				t.Fatalf("direction %d, wide filter %d of one owner: %v, want %v", direction, i, code, want)
			}
		}
		for _, bits := range []int{32, 24, 0} {
			if code := table.installAs(wide(bits, 32, direction), 2, ifp.ByDestination); code != ifp.OK {
				t.Errorf("direction %d, /%d of another: %v", direction, bits, code)
			}
		}
		if direction == ifp.ToCustomer {
			f := wide(32, 32, direction)
			f.Action = ifp.BlockTS0
			if code := table.installAs(f, 3, ifp.BySource); code != ifp.OK {
				t.Errorf("what the source asks for: %v", code)
			}
		}
		if code := table.installAs(wide(25, 32, direction), 2, ifp.ByDestination); code != ifp.OK {
			t.Errorf("direction %d, a place of one's own for a newcomer: %v", direction, code)
		}
		if got := table.Places(); got.GivenUp != 1 || got.FiltersGivenUp != 1 {
			t.Errorf("%+v, want one place given up with one filter", got)
		}
	}
}

// With as many owners as places each has one, whatever the order; one more gets the answer
// that others hold them, and no owner loses its only one.
func TestPlacesAreSharedOut(t *testing.T) {
	table := memoryTable(t, 10_000)
	own := shapesMax - openPlaces[ifp.FromCustomer]
	for bits := 1; bits <= own; bits++ {
		if code := table.installAs(wide(bits, 32, ifp.FromCustomer), 1, ifp.ByDestination); code != ifp.OK {
			t.Fatal(code)
		}
	}
	for owner := 2; owner <= own; owner++ {
		table.taken = time.Time{} // a second later
		if code := table.installAs(wide(10+owner, 32, ifp.FromCustomer), uint32(owner), ifp.ByDestination); code != ifp.OK {
			t.Fatalf("owner %d: %v", owner, code)
		}
	}
	table.taken = time.Time{}
	if code := table.installAs(wide(20, 32, ifp.FromCustomer), 99, ifp.ByDestination); code != ifp.TooManyShapes {
		t.Errorf("one owner more than places: %v", code)
	}
	if code := table.installAs(wide(21, 32, ifp.FromCustomer), 2, ifp.ByDestination); code != ifp.OverShare {
		t.Errorf("a second place for one of them: %v", code)
	}
	for owner := 2; owner <= own; owner++ {
		if st := table.statOne(keyOfFilter(wide(10+owner, 32, ifp.FromCustomer)), ifp.Grant{Rights: ifp.ByDestination, Owner: uint32(owner)}, 1); st.Code != ifp.OK {
			t.Errorf("owner %d has lost his place: %v", owner, st.Code)
		}
	}
	// Places are freed when their filters are removed.
	if code := table.removeOne(keyOfFilter(wide(12, 32, ifp.FromCustomer)), ifp.Grant{Rights: ifp.ByDestination, Owner: 2}); code != ifp.OK {
		t.Fatal(code)
	}
	if code := table.installAs(wide(20, 32, ifp.FromCustomer), 99, ifp.ByDestination); code != ifp.OK {
		t.Errorf("after one was taken back: %v", code)
	}
	if got := table.Places(); got.Refused != 2 || got.GivenUp != uint64(own-1) {
		t.Errorf("%+v", got)
	}
}

func keyOfFilter(f ifp.Filter) ifp.Key { return f.Key() }

// Taking a place means scanning the table: two owners that take it from each other in
// turn cannot keep it busy.
func TestPlacesAreTakenRarely(t *testing.T) {
	table := memoryTable(t, 10_000)
	for bits := 1; bits <= 5; bits++ {
		table.installAs(wide(bits, 32, ifp.FromCustomer), 1, ifp.ByDestination)
	}
	for range 100 {
		table.installAs(wide(20, 32, ifp.FromCustomer), 2, ifp.ByDestination)
		table.removeOne(keyOfFilter(wide(20, 32, ifp.FromCustomer)), ifp.Grant{Rights: ifp.ByDestination, Owner: 2})
		table.installAs(wide(5, 32, ifp.FromCustomer), 1, ifp.ByDestination)
	}
	if got := table.Places(); got.GivenUp == 0 || got.GivenUp > 3 {
		t.Errorf("%d places were taken in a moment", got.GivenUp)
	}
}

// A full table restores the place as it was: a 0 in the middle would end the list that
// packets read before shapes that are in use.
func TestFullTableLeavesTheListWhole(t *testing.T) {
	table := memoryTable(t, 16)
	first, last := wide(32, 32, ifp.FromCustomer), wide(24, 32, ifp.FromCustomer)
	table.installAs(first, 1, ifp.ByDestination)
	table.installAs(last, 1, ifp.ByDestination)
	for i := 0; ; i++ {
		f := last
		f.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 0}), 24)
		if table.installAs(f, 1, ifp.ByDestination) == ifp.TableFull {
			break
		}
	}
	table.removeOne(keyOfFilter(first), nobodys) // leaves a hole; its slot rests
	for i := range 200 {
		f := wide(0, 32, ifp.FromCustomer)
		f.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, 0, byte(i)}), 32)
		table.installAs(f, 1, ifp.ByDestination)
	}
	var s Settings
	table.fillShapes(&s, false)
	ended := false
	for _, shape := range s.Shapes[0][0] {
		if ended && shape.Id != 0 {
			t.Fatalf("the list ends before shapes in use: %+v", s.Shapes[0][0])
		}
		ended = ended || shape.Id == 0
	}
}

// Whatever owners do, in any order: an owner without a place gets one unless as
// many others hold one each, open shapes always work, and no owner reads or removes
// another's filters.
func TestPlacesProperty(t *testing.T) {
	random := mrand.New(mrand.NewPCG(4, 2))
	table := memoryTable(t, 20_000)
	for round := range 20_000 {
		table.taken = time.Time{} // later: places may be taken, and slots have rested
		table.wake(time.Now().Add(time.Second))
		owner := uint32(1 + random.IntN(7))
		right := ifp.ByDestination
		direction := ifp.Direction(random.IntN(2))
		f := wide([]int{32, 24, 0, 8, 12, 16, 20, 28}[random.IntN(8)], []int{32, 24, 16}[random.IntN(3)], direction)
		if direction == ifp.ToCustomer && random.IntN(3) == 0 {
			right, f.Action = ifp.BySource, ifp.BlockTS0
		}
		g := ifp.Grant{Rights: right, Owner: owner}
		if random.IntN(3) == 0 {
			table.removeOne(f.Key(), g)
			if st := table.statOne(f.Key(), g, 1); st.Code != ifp.NotFound {
				t.Fatalf("round %d: removed, and still there", round)
			}
			continue
		}
		held, others := map[uint32]int{}, 0
		for i := range table.shapes[direction][0] {
			if s := &table.shapes[direction][0][i]; s.inUse() && !s.open(0) {
				held[s.owner]++
			}
		}
		for o := range held {
			if o != owner {
				others++
			}
		}
		code := table.installAs(f, owner, right)
		open := isOpen(uint8(f.Src.Bits()), uint8(f.Dst.Bits()), right, 0)
		switch {
		case code == ifp.OK:
			if st := table.statOne(f.Key(), g, 1); st.Code != ifp.OK {
				t.Fatalf("round %d: installed, and not there", round)
			}
			stranger := ifp.Grant{Rights: right, Owner: 1000}
			if st := table.statOne(f.Key(), stranger, 1); !open && st.Code == ifp.OK {
				t.Fatalf("round %d: a stranger reads it", round)
			}
		case open:
			t.Fatalf("round %d: %v for an open pair", round, code)
		case code == ifp.TooManyShapes && (held[owner] != 0 || others < shapesMax-openPlaces[direction]):
			t.Fatalf("round %d: owner %d holds none, %d others hold one: %v", round, owner, others, code)
		case code == ifp.OverShare && held[owner] == 0:
			t.Fatalf("round %d: owner %d holds none: %v", round, owner, code)
		}
	}
	if got := table.Places(); got.Refused < 100 || got.GivenUp < 10 {
		t.Errorf("%+v: the mix does not test it", got)
	}
}
