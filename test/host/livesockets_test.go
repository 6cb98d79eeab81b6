// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane"
)

// liveSocket is struct tg_live of core/live_sockets.h.
type liveSocket struct {
	Hash     uint64
	Seq, Ack uint32
}

// The table of live sockets has an entry while a socket lives, with the numbers of the ACK that began it. An entry whose
// socket's close was never reported is cleared before its client is sent a cookie: the client connects.
func TestLiveSocketsTable(t *testing.T) {
	w := newWorld(t)
	l := w.listenOn(webPort, unix.IPPROTO_TCP, 16)
	w.start(w.webConfig(webPort))
	live := pinnedTable[liveSocket](w, "tg_live_sockets")
	cells := pinnedTable[uint32](w, "tg_sockets")
	bits := pinnedTable[uint64](w, "tg_socket_bits") // of one entry, which is all words
	for _, ipv6 := range families() {
		c, s := w.connectFrom(l, ipv6, firstPort)
		w.await("one entry", func() bool { return len(live.used()) == 1 })
		if err := transfer(c, s, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		entry, count := live.used(), cells.used()
		var marks []uint64
		if err := plane.Entries(bits.m, false, func(words []uint64) { marks = slices.Clone(words) }); err != nil {
			t.Fatal(err)
		}
		if err := c.vanish(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		w.await("no entry", func() bool { return len(live.used()) == 0 })

		cells.put(count)
		if err := plane.Entries(bits.m, true, func(words []uint64) { copy(words, marks) }); err != nil {
			t.Fatal(err)
		}
		live.put(entry)
		c, s = w.connectFrom(l, ipv6, firstPort)
		if err := transfer(c, s, []byte("again")); err != nil {
			t.Errorf("%s: behind an entry of a socket that is gone: %v", familyName(ipv6), err)
		}
		for slot, now := range live.used() {
			if old := entry[slot]; now.Hash != old.Hash || now.Seq == old.Seq || now.Ack == old.Ack {
				t.Errorf("%s: the new connection's entry is %+v, the old one's was %+v", familyName(ipv6), now, old)
			}
		}
		if err := c.vanish(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		w.await("no entry", func() bool { return len(live.used()) == 0 })
	}
}

// table is a pinned array.
type table[V comparable] struct {
	w *world
	m *ebpf.Map
}

func pinnedTable[V comparable](w *world, name string) table[V] {
	w.t.Helper()
	m, err := ebpf.LoadPinnedMap(w.pinDir()+"/"+name, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { m.Close() })
	return table[V]{w, m}
}

// used are the values that are not zero, by index.
func (x table[V]) used() map[uint32]V {
	x.w.t.Helper()
	keys, values := make([]uint32, x.m.MaxEntries()), make([]V, x.m.MaxEntries())
	n, err := x.m.BatchLookup(new(ebpf.MapBatchCursor), keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		x.w.t.Fatal(err)
	}
	var zero V
	found := map[uint32]V{}
	for i, v := range values[:n] {
		if v != zero && !emptied(v) {
			found[keys[i]] = v
		}
	}
	return found
}

// emptied: an entry whose hash was cleared keeps its numbers.
func emptied(v any) bool {
	l, is := v.(liveSocket)
	return is && l.Hash == 0
}

func (x table[V]) put(values map[uint32]V) {
	x.w.t.Helper()
	for at, v := range values {
		if err := x.m.Put(at, v); err != nil {
			x.w.t.Fatal(err)
		}
	}
}
