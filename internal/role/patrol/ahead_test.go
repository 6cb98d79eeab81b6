// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"tidegate/internal/ifp"
)

// removeOne removes one filter.
func (t *Table) removeOne(k ifp.Key, g ifp.Grant) ifp.Code {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remove(k, g)
}

// statOne is the counters of one filter.
func (t *Table) statOne(k ifp.Key, g ifp.Grant, nowS uint32) ifp.Stat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stat(k, g, nowS)
}

// What a group is looked up ahead with is where its filters then are; and looking ahead changes nothing.
func TestLookAhead(t *testing.T) {
	table, err := NewMemoryTable(4 * aheadMax)
	if err != nil {
		t.Fatal(err)
	}
	filters := make([]ifp.Filter, 3*aheadMax)
	for i := range filters {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(i+1))
		filters[i] = ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4(a), 32), Dst: netip.MustParsePrefix("198.18.0.1/32"), Action: ifp.Block}
	}
	table.Install(&filters[0], 0) // before its shape exists, nothing is looked up
	codes := make([]ifp.Code, len(filters))
	table.InstallAll(filters, codes, 0)
	for i, code := range codes {
		if code != ifp.OK {
			t.Fatalf("filter %d: %v", i, code)
		}
	}
	for begin := 0; begin < len(filters); begin += aheadMax {
		table.ahead = ahead{}
		table.lookAhead(filters, nil, begin)
		if table.ahead.sum == 0 {
			t.Errorf("nothing was read for the group of filter %d", begin)
		}
		for k := range aheadMax {
			m, _ := table.maskedOf(filters[begin+k].Key(), nobodys)
			at := table.positionOf(m)
			slot, ok := table.find(&at)
			if !ok {
				t.Fatalf("filter %d was not installed", begin+k)
			}
			if slot/bucketSlots == at.home && table.ahead.slots[k] != slot {
				t.Errorf("filter %d is in slot %d, and %d was read", begin+k, slot, table.ahead.slots[k])
			}
		}
	}
	before := table.ahead
	table.lookAhead(filters, nil, 1) // not the first of a group
	if table.ahead != before {
		t.Error("a group was looked up twice")
	}
	for i, st := range table.StatGranted(filters, nil, nil, 0) {
		if st.Code != ifp.OK {
			t.Errorf("counters of filter %d: %v", i, st.Code)
		}
	}
	table.RemoveGranted(filters, nil, codes)
	if n := table.Len(); n != 0 {
		t.Errorf("%d filters are left", n)
	}
}
