// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"bytes"
	"testing"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

func seeds(t testing.TB) [][]byte {
	r := record(t, "rir", 1, 1, "10.1.0.0/16")
	slot, digest := r.Slot(), r.Digest()
	want := append(slot[:], digest[:]...)
	return [][]byte{
		EncodeSummary([store.Trees]store.Hash{}), EncodePush([][]byte{r.Raw()}), EncodeGetNodes(1, 0, []uint16{0, 64}),
		EncodeNodes(1, make([]byte, 64*32)), EncodeGetEntries(2, 1, []uint16{0, 4095}), EncodeEntries(2, [][]byte{make([]byte, store.EntryLen)}, true),
		EncodeGetRecords(3, 1, want), EncodeRecords(3, [][]byte{r.Raw()}), encode(Bye, 0, byeBody{Code: TooMany, Text: "x"}),
		{}, {0xff}, {0x83, 1, 0, 0x40}, {0x9f, 1, 0, 0x40, 0xff}, {0x83, 0x18, 1, 0, 0x40},
	}
}

// FuzzMessage: every message is refused or within its bounds.
func FuzzMessage(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		d, err := decode(msg)
		if err != nil {
			return
		}
		if len(d.records) > maxWants || len(d.getNodes.Nodes) > maxNodes || len(d.getEntries.Leaves) > maxLeaves ||
			len(d.getRecords.Wants) > maxWants*wantLen || len(d.entries.Lists) > maxElements || len(d.bye.Text) > maxByeText {
			t.Fatalf("%+v is out of bounds", d)
		}
	})
}

// FuzzReceive: whatever a peer sends, one message after the other, the engine
// stands, and stores nothing that is not signed and covered.
func FuzzReceive(f *testing.F) {
	list := seeds(f)
	f.Add(bytes.Join(list[:3], []byte{0xfe, 0xfd}))
	f.Add(bytes.Join(list, []byte{0xfe, 0xfd}))
	for _, s := range list {
		f.Add(s)
	}
	valid := record(f, "rir", 1, 1, "10.1.0.0/16").Digest()
	f.Fuzz(func(t *testing.T, stream []byte) {
		w := newWorld(t)
		a := w.add("a", Limits{})
		w.link("a", "mallory")
		w.tell(a, "mallory", EncodeSummary([store.Trees]store.Hash{{1}, {2}}))
		for i, msg := range bytes.Split(stream, []byte{0xfe, 0xfd}) {
			if i > 20 {
				return
			}
			w.tell(a, "mallory", msg)
			w.pass(TickEvery)
		}
		for _, r := range a.store.All() {
			if r.Digest() != valid && binding.CodeOf(r.VerifySignature()) != binding.OK {
				t.Fatal("stored a record that nobody signed")
			}
		}
	})
}
