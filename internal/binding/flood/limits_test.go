// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"testing"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

func TestPushBudget(t *testing.T) {
	list := many(t, 400)
	w := newWorld(t)
	a := w.add("a", Limits{PushRate: 10, PushBurst: 100, IgnoreRate: 20})
	w.link("a", "mallory")
	for _, r := range list[:200] {
		w.tell(a, "mallory", EncodePush([][]byte{r.Raw()}))
	}
	if n := a.store.Len(); n < 100 || n > 101 {
		t.Errorf("%d records of 200 pushed at once, want 100", n)
	}
	w.pass(2 * time.Second)
	for _, r := range list[200:] {
		w.tell(a, "mallory", EncodePush([][]byte{r.Raw()}))
	}
	if n := a.store.Len(); n < 119 || n > 122 {
		t.Errorf("%d records after two more seconds, want 120", n)
	}
	for range 300 {
		w.tell(a, "mallory", EncodePush([][]byte{list[0].Raw()}))
	}
	if why := w.closed[publicKey("mallory")]; why != TooMany {
		t.Errorf("a flood of known records: %s", why)
	}
}

func TestServeQueue(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{ServeRate: 4096, ServeQueue: 4}, many(t, 10)...)
	w.link("a", "mallory")
	ask := func(id uint32) { w.tell(a, "mallory", EncodeGetNodes(id, store.BindTree, []uint16{0})) }
	answers := func() (n int) {
		for _, m := range w.strangers[publicKey("mallory")] {
			if q, err := ReadRequest(m); err == nil && q.Kind == Nodes {
				n++
			}
		}
		return n
	}
	for id := range uint32(6) {
		ask(id + 1)
	}
	if n := answers(); n != 2 { // 2 KiB each
		t.Errorf("%d answers at once, want 2", n)
	}
	w.pass(2 * time.Second)
	if n := answers(); n < 5 || n > 6 {
		t.Errorf("%d answers after two seconds, want 6 at 4 KiB/s", n)
	}
	for id := range uint32(12) {
		ask(id + 100)
	}
	if why := w.closed[publicKey("mallory")]; why != TooMany {
		t.Errorf("a flood of requests: %s", why)
	}
}

// TestReadPace: whoever sends faster than allowed is read more slowly.
func TestReadPace(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{ReadRate: 1000})
	w.link("a", "mallory")
	id := publicKey("mallory")
	if d := a.Wait(id, 1000, w.now); d != 0 {
		t.Errorf("within the burst: %s", d)
	}
	if d := a.Wait(id, 500, w.now); d != 500*time.Millisecond {
		t.Errorf("500 bytes more at 1000 bytes/s: %s", d)
	}
	if d := a.Wait(id, 3200, w.now); d != 3700*time.Millisecond { // more than the burst
		t.Errorf("3200 bytes more at 1000 bytes/s: %s", d)
	}
}

func TestSlowAndSilentPeers(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{QueuedBytes: 10000, SilenceTime: 10 * time.Second}, many(t, 100)...)
	for _, name := range []string{"slow", "silent"} {
		if err := a.Connect(publicKey(name), w.now); err != nil {
			t.Fatal(err)
		}
	}
	a.Drain()
	for id := range uint32(10) { // and never reports anything as sent
		a.Receive(publicKey("slow"), EncodeGetNodes(id+1, store.BindTree, []uint16{0}), w.now)
	}
	for range 120 {
		w.now = w.now.Add(TickEvery)
		a.Tick(w.now)
		for _, o := range a.Drain() {
			if o.Close {
				w.closed[o.Peer] = o.Why
			}
		}
	}
	if w.closed[publicKey("slow")] != TooSlow || w.closed[publicKey("silent")] != Silent {
		t.Errorf("closed: %v", w.closed)
	}
}

// TestPromises: a peer that promises millions of records fills no memory.
func TestPromises(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{WantQueue: 100, InFlight: 150})
	w.link("a", "mallory")
	roots := a.store.Roots()
	roots[store.BindTree][0] ^= 1
	answered := 0
	for range 200 {
		w.tell(a, "mallory", EncodeSummary(roots))
		w.pass(TickEvery)
		list := w.strangers[publicKey("mallory")]
		for ; answered < len(list); answered++ {
			q, err := ReadRequest(list[answered])
			if err != nil {
				t.Fatal(err)
			}
			switch q.Kind {
			case GetNodes:
				w.tell(a, "mallory", EncodeNodes(q.ID, make([]byte, len(q.Nodes)*store.Fanout*32)))
			case GetEntries:
				var lists [][]byte
				for _, leaf := range q.Leaves {
					var b []byte
					for i := range 20 {
						e := make([]byte, store.EntryLen)
						e[0], e[1], e[15], e[39], e[38] = byte(leaf>>4), byte(leaf<<4), byte(i), byte(i), byte(leaf)
						b = append(b, e...)
					}
					lists = append(lists, b)
				}
				w.tell(a, "mallory", EncodeEntries(q.ID, lists, false))
			}
			l := &a.peers[publicKey("mallory")].pull
			if len(l.wants)+len(l.parked) > 100 || len(a.inFlight) > 150 || len(l.open) > 8 {
				t.Fatalf("%d wanted, %d asked for, %d open requests", len(l.wants)+len(l.parked), len(a.inFlight), len(l.open))
			}
		}
	}
	if a.Stats().Unanswered == 0 {
		t.Error("the test has not promised anything")
	}
}

func TestPeersAreBounded(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{Peers: 2})
	for i, name := range []string{"x", "y", "z"} {
		if err := a.Connect(publicKey(name), w.now); (err == nil) != (i < 2) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Disconnect(publicKey("x"))
	if err := a.Connect(publicKey("z"), w.now); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if err := a.Connect(publicKey("z"), w.now); err == nil {
		t.Error("connected twice")
	}
	a.opts.Allow = func(p Peer) bool { return p != publicKey("y") }
	w.pass(2 * time.Second)
	if a.peers[publicKey("y")] != nil || w.closed[publicKey("y")] != NotAllowed {
		t.Error("a peer that is allowed no more is still there")
	}
	if err := a.Connect(publicKey("y"), w.now); err == nil {
		t.Error("connected though not allowed")
	}
}

// TestClocks: what has expired here is not taken, whoever offers it, and not asked for all the time.
func TestClocks(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{}, many(t, 20)...) // valid for a day
	w.link("a", "b")
	behind := w.add("b", Limits{})
	late := testNow.Add(24*time.Hour + binding.Skew + time.Second)
	if err := behind.Connect(publicKey("a"), late); err != nil {
		t.Fatal(err)
	}
	deliver := func() {
		for _, o := range a.Drain() { // a's clock is behind
			behind.Receive(publicKey("a"), o.Msg, late)
		}
		for _, o := range behind.Drain() {
			a.Receive(publicKey("b"), o.Msg, w.now)
		}
	}
	asked := uint64(0)
	for range 600 { // a minute
		w.now, late = w.now.Add(TickEvery), late.Add(TickEvery)
		a.Tick(w.now)
		behind.Tick(late)
		for range 8 {
			deliver()
		}
		asked = behind.Stats().Asked
	}
	if behind.store.Len() != 0 || behind.Stats().Refused[binding.Expired] == 0 {
		t.Errorf("%d expired records taken; refused %v", behind.store.Len(), behind.Stats().Refused)
	}
	if asked > 60 {
		t.Errorf("%d records asked for in a minute, of 20", asked)
	}
}
