// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

var testNow = time.Unix(1800000000, 0)

func privateKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("flood test " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicKey(name string) binding.Key {
	return binding.Key(privateKey(name).Public().(ed25519.PublicKey))
}

// record signs the n-th manager's binding.
func record(t testing.TB, by string, n uint32, serial uint64, prefix string) *binding.Record {
	t.Helper()
	r := binding.Record{Role: binding.BorderManager, Serial: serial, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
		Endpoints: []binding.Endpoint{{Service: binding.ServiceIFP, Addr: netip.MustParseAddrPort("192.0.2.1:4141")}},
		NotBefore: testNow.Unix() - 3600, NotAfter: testNow.Unix() + 86400}
	binary.BigEndian.PutUint32(r.Key[:], n+1)
	signed, err := binding.Sign(r, privateKey(by))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func authority(t testing.TB, name string) *binding.Record {
	t.Helper()
	signed, err := binding.Sign(binding.Record{Role: binding.Authority, Serial: 1, Key: publicKey(name), Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		NotBefore: testNow.Unix() - 3600, NotAfter: testNow.Unix() + 86400}, privateKey("rir"))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// world is engines that hear each other at once.
type world struct {
	t     testing.TB
	now   time.Time
	nodes map[Peer]*Engine
	names map[string]Peer
	bytes int
	// drop, if set, swallows messages.
	drop func(from, to Peer, msg []byte) bool
	// strangers are peers without an engine; what they are sent is kept.
	strangers map[Peer][][]byte
	closed    map[Peer]Reason
}

func newWorld(t testing.TB) *world {
	return &world{t: t, now: testNow, nodes: map[Peer]*Engine{}, names: map[string]Peer{}, strangers: map[Peer][][]byte{}, closed: map[Peer]Reason{}}
}

func (w *world) add(name string, limits Limits, records ...*binding.Record) *Engine {
	w.t.Helper()
	s, err := store.New(store.Options{Anchors: []binding.Anchor{{Name: "rir", Key: publicKey("rir"), Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range records {
		if _, err := s.Admit(r.Raw(), w.now); err != nil {
			w.t.Fatal(err)
		}
	}
	e := New(Options{Store: s, Limits: limits, Seed: uint64(len(w.nodes))})
	w.nodes[publicKey(name)], w.names[name] = e, publicKey(name)
	return e
}

func (w *world) link(a, b string) {
	w.t.Helper()
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if e := w.nodes[w.names[pair[0]]]; e != nil {
			if err := e.Connect(publicKey(pair[1]), w.now); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.pump()
}

// pump carries messages until nobody says anything.
func (w *world) pump() {
	for busy := true; busy; {
		busy = false
		for id, e := range w.nodes {
			for _, o := range e.Drain() {
				busy = true
				if o.Close {
					w.closed[o.Peer] = o.Why
					if other := w.nodes[o.Peer]; other != nil {
						other.Disconnect(id)
					}
					continue
				}
				w.bytes += len(o.Msg)
				e.Sent(o.Peer, len(o.Msg))
				if w.drop != nil && w.drop(id, o.Peer, o.Msg) {
					continue
				}
				if other := w.nodes[o.Peer]; other != nil {
					other.Receive(id, o.Msg, w.now)
				} else {
					w.strangers[o.Peer] = append(w.strangers[o.Peer], o.Msg)
				}
			}
		}
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(TickEvery)
		for _, e := range w.nodes {
			e.Tick(w.now)
		}
		w.pump()
	}
}

func (w *world) tell(e *Engine, from string, msg []byte) {
	e.Receive(publicKey(from), msg, w.now)
	w.pump()
}

// lastRequest is what a stranger was asked last.
func (w *world) lastRequest(name string) *Request {
	w.t.Helper()
	list := w.strangers[publicKey(name)]
	for i := len(list) - 1; i >= 0; i-- {
		if q, err := ReadRequest(list[i]); err == nil && q.ID != 0 {
			return q
		}
	}
	w.t.Fatal("nothing was asked")
	return nil
}

func many(t testing.TB, n int) []*binding.Record {
	list := make([]*binding.Record, n)
	for i := range list {
		list[i] = record(t, "rir", uint32(i), 1, "10.0.0.0/8")
	}
	return list
}

// TestRepairCostsWhatDiffers: three records of 3,000 differ, each way.
func TestRepairCostsWhatDiffers(t *testing.T) {
	all := many(t, 3000)
	w := newWorld(t)
	a, b := w.add("a", Limits{}, all[3:]...), w.add("b", Limits{}, all[:2997]...)
	w.link("a", "b")
	w.pass(10 * time.Second)
	if a.store.Len() != 3000 || a.store.Roots() != b.store.Roots() || !a.Synced() {
		t.Fatalf("%d and %d records", a.store.Len(), b.store.Len())
	}
	if w.bytes > 60000 {
		t.Errorf("%d bytes for six records", w.bytes)
	}
	w.bytes = 0
	w.pass(10 * time.Second)
	if w.bytes > 800 {
		t.Errorf("%d bytes in ten seconds without news", w.bytes)
	}
}

// TestAuthoritiesComeFirst: records in the second tree hang on one in the first.
func TestAuthoritiesComeFirst(t *testing.T) {
	list := []*binding.Record{authority(t, "isp")}
	for i := range 500 {
		list = append(list, record(t, "isp", uint32(i), 1, "10.1.0.0/16"))
	}
	w := newWorld(t)
	w.add("a", Limits{}, list...)
	b := w.add("b", Limits{})
	w.link("a", "b")
	w.pass(5 * time.Second)
	if st := b.Stats(); b.store.Len() != 501 || st.Refused != [binding.Codes]uint64{} {
		t.Errorf("%d records, %+v", b.store.Len(), st)
	}
}

// TestPushWithoutAuthority: the authority is asked for at once.
func TestPushWithoutAuthority(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{}, authority(t, "isp"))
	b := w.add("b", Limits{})
	w.drop = func(_, _ Peer, msg []byte) bool { q, _ := ReadRequest(msg); return q.Kind == Summary }
	w.link("a", "b")
	if _, err := a.Publish(record(t, "isp", 1, 1, "10.1.0.0/16").Raw(), w.now); err != nil {
		t.Fatal(err)
	}
	w.pump()
	if b.store.Len() != 0 {
		t.Fatal("stored without its authority")
	}
	w.pass(time.Second)
	if b.store.Len() != 2 {
		t.Errorf("%d records; the summaries are lost, but the push must do", b.store.Len())
	}
}

func TestPushIsPassedOnOnce(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		w.add(n, Limits{})
	}
	for i, x := range names {
		for _, y := range names[i+1:] {
			w.link(x, y)
		}
	}
	w.bytes = 0
	r := record(t, "rir", 1, 1, "10.1.0.0/16")
	if _, err := w.nodes[publicKey("a")].Publish(r.Raw(), w.now); err != nil {
		t.Fatal(err)
	}
	w.pump()
	for name, id := range w.names {
		if w.nodes[id].store.Len() != 1 {
			t.Errorf("%s has not got it", name)
		}
	}
	// Three from a, and at most two from each of the others.
	if copies := w.bytes / len(r.Raw()); copies > 9 {
		t.Errorf("%d copies among four", copies)
	}
}

func TestForgedPush(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{})
	w.add("b", Limits{})
	w.link("a", "b")
	w.link("a", "mallory")
	forged := append([]byte(nil), record(t, "rir", 1, 1, "10.1.0.0/16").Raw()...)
	forged[len(forged)-1] ^= 1
	w.bytes = 0
	w.tell(a, "mallory", EncodePush([][]byte{forged}))
	if a.store.Len() != 0 || w.closed[publicKey("mallory")] != BadRecord || w.bytes > 400 {
		t.Errorf("%d records, %s, %d bytes passed on", a.store.Len(), w.closed[publicKey("mallory")], w.bytes)
	}
	if err := a.Connect(publicKey("mallory"), w.now); err == nil {
		t.Error("taken up again at once")
	}
	if err := a.Connect(publicKey("mallory"), w.now.Add(11*time.Minute)); err != nil {
		t.Errorf("after the ban: %v", err)
	}
}

// TestRefusedIsNotPassedOn: wide, expired and superseded records stop here, but
// prove nothing against who sent them.
func TestRefusedIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	a := w.add("a", Limits{}, authority(t, "isp"), record(t, "rir", 1, 5, "10.1.0.0/16"))
	b := w.add("b", Limits{}, authority(t, "isp"))
	w.link("a", "b")
	w.link("a", "mallory")
	w.pass(2 * time.Second)
	before := b.Stats().Accepted
	w.tell(a, "mallory", EncodePush([][]byte{
		record(t, "isp", 2, 1, "0.0.0.0/0").Raw(), record(t, "rir", 1, 4, "10.1.0.0/16").Raw(), record(t, "nobody", 3, 1, "10.1.0.0/16").Raw(),
	}))
	st := a.Stats()
	if st.Refused[binding.Wider] != 1 || st.Refused[binding.Stale] != 1 || st.Refused[binding.NoAuthority] != 1 {
		t.Errorf("refused %v", st.Refused)
	}
	if a.peers[publicKey("mallory")] == nil || b.Stats().Accepted != before || st.Forwarded != 0 {
		t.Errorf("closed, or passed on: %+v", st)
	}
}

// TestWithholder: who promises records and does not deliver is left; another delivers.
func TestWithholder(t *testing.T) {
	list := many(t, 50)
	w := newWorld(t)
	a := w.add("a", Limits{})
	w.add("mallory", Limits{}, list...)
	w.add("honest", Limits{}, list...)
	w.drop = func(from, _ Peer, msg []byte) bool {
		q, err := ReadRequest(msg)
		return err == nil && q.Kind == Records && from == publicKey("mallory")
	}
	w.link("a", "mallory")
	w.pass(2 * time.Second)
	if a.store.Len() != 0 || len(a.inFlight) != 50 {
		t.Fatalf("%d records, %d asked for", a.store.Len(), len(a.inFlight))
	}
	w.link("a", "honest")
	w.pass(8 * time.Second)
	if a.store.Len() != 50 || len(a.inFlight) != 0 {
		t.Errorf("%d records, %d still asked for", a.store.Len(), len(a.inFlight))
	}
}

func TestAnswersAreHeldAgainstQuestions(t *testing.T) {
	good := record(t, "rir", 9, 1, "10.1.0.0/16")
	entry := func(slot binding.Slot, serial uint64, digest binding.Digest) []byte {
		b := binary.BigEndian.AppendUint64(append([]byte(nil), slot[:]...), serial)
		return append(b, digest[:]...)
	}
	all := make([]byte, store.Fanout*32)
	for name, tc := range map[string]struct {
		entries []byte
		records [][]byte
		want    Reason
	}{
		"another record":    {entry(good.Slot(), 1, good.Digest()), [][]byte{record(t, "rir", 8, 1, "10.1.0.0/16").Raw()}, BadMessage},
		"other serial":      {entry(good.Slot(), 7, good.Digest()), [][]byte{good.Raw()}, FalseEntry},
		"outside its leaf":  {entry(binding.Slot{255, 255}, 7, good.Digest()), nil, FalseEntry},
		"the same twice":    {append(entry(good.Slot(), 1, good.Digest()), entry(good.Slot(), 2, good.Digest())...), nil, FalseEntry},
		"nothing delivered": {entry(good.Slot(), 1, good.Digest()), [][]byte{}, Normal},
		"as it should be":   {entry(good.Slot(), 1, good.Digest()), [][]byte{good.Raw()}, Normal},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.add("a", Limits{})
			w.link("a", "mallory")
			leaf := store.LeafOf(good.Slot())
			node := make([]byte, store.Fanout*32)
			for i := range store.Fanout { // only this leaf differs
				h := a.store.Children(store.BindTree, 1+leaf/store.Fanout)[i]
				copy(node[i*32:], h[:])
				h = a.store.Children(store.BindTree, 0)[i]
				copy(all[i*32:], h[:])
			}
			node[leaf%store.Fanout*32] ^= 1
			all[leaf/store.Fanout*32] ^= 1
			roots := a.store.Roots()
			roots[store.BindTree][0] ^= 1
			w.tell(a, "mallory", EncodeSummary(roots))
			w.pass(time.Second)
			for range 4 {
				q := w.lastRequest("mallory")
				switch {
				case q.Kind == GetNodes && q.Nodes[0] == 0:
					w.tell(a, "mallory", EncodeNodes(q.ID, all))
				case q.Kind == GetNodes:
					w.tell(a, "mallory", EncodeNodes(q.ID, node))
				case q.Kind == GetEntries:
					w.tell(a, "mallory", EncodeEntries(q.ID, [][]byte{tc.entries}, false))
				case q.Kind == GetRecords:
					w.tell(a, "mallory", EncodeRecords(q.ID, tc.records))
				}
			}
			if why := w.closed[publicKey("mallory")]; why != tc.want {
				t.Errorf("closed: %s, want %s", why, tc.want)
			}
			if want := len(tc.records); tc.want == Normal && a.store.Len() != want {
				t.Errorf("%d records, want %d", a.store.Len(), want)
			}
		})
	}
}
