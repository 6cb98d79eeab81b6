// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"testing"

	"tidegate/internal/ifp"
)

// FuzzControl: whatever a border manager sends, each filter gets one code, the answer can
// be parsed, and installed filters can be counted and removed by their owner.
func FuzzControl(f *testing.F) {
	p := wide(24, 32, ifp.FromCustomer)
	granted := ifp.AppendGrant(ifp.AppendFilter(nil, &p), ifp.Grant{Rights: ifp.ByDestination, Owner: 7})
	f.Add(uint8(ifp.Install), ifp.FlagGrants, uint16(1), granted)
	f.Add(uint8(ifp.Remove), uint8(0), uint16(1), ifp.AppendFilter(nil, &p))
	f.Add(uint8(ifp.Stats), uint8(0), uint16(0), []byte{})
	f.Fuzz(func(t *testing.T, kind, flags uint8, count uint16, body []byte) {
		table := memoryTable(t, 100)
		table.InstallAll([]ifp.Filter{p}, make([]ifp.Code, 1), 1)
		m := make([]byte, ifp.HeaderLen, ifp.HeaderLen+len(body))
		h := ifp.Header{Type: ifp.Type(kind), Flags: flags, Count: count, Length: uint16(ifp.HeaderLen + len(body))}
		h.Put(m)
		if m = append(m, body...); len(m) > ifp.MaxStream {
			return
		}
		var w Answerer
		out, err := w.Answer(table, m)
		if err != nil {
			return // the connection is ended
		}
		answer, err := ifp.ReadHeader(out)
		if err != nil || answer.Count != count || binary.BigEndian.Uint64(out[8:]) != 0 {
			t.Fatalf("answer %x, %v", out, err)
		}
		if answer.Type == ifp.Statistics {
			if _, err := ifp.ReadStatistics(&answer, out); err != nil {
				t.Fatal(err)
			}
			return
		}
		codes, _, err := ifp.ReadResult(&answer, out)
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range codes {
			if ifp.Type(kind) != ifp.Install || ifp.Code(code) != ifp.OK {
				continue
			}
			g := nobodys
			if flags&ifp.FlagGrants != 0 {
				g = w.grants[i]
			}
			if st := table.statOne(w.filters[i].Key(), g, nowS()); st.Code != ifp.OK {
				// a later filter of this message may have displaced it
				if table.Places().GivenUp == 0 {
					t.Fatalf("%v by %+v: installed, and then %v", &w.filters[i], g, st.Code)
				}
			}
		}
	})
}
