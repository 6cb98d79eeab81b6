// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
	"tidegate/internal/upstreamtest"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

var (
	own       = []netip.Prefix{prefix("198.51.100.0/24"), prefix("2001:db8:5::/48")}
	customers = [][]netip.Prefix{{prefix("10.1.0.0/16"), prefix("2001:db8:1::/48")}, {prefix("10.2.0.0/16")}}
)

func start(t *testing.T, rate int) *upstreamtest.Net {
	t.Helper()
	n, err := upstreamtest.New(upstreamtest.Options{Prefixes: customers, Own: own, Capacity: 10_000, Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func do(t *testing.T, n *upstreamtest.Net, kind ifp.Type, proof bool, filters ...ifp.Filter) filterman.Outcome {
	t.Helper()
	done := make(chan filterman.Outcome, 1)
	n.Engine.Do(filterman.Job{Kind: kind, Filters: filters, BM: n.BM, Proof: proof, Done: func(o filterman.Outcome) { done <- o }})
	select {
	case o := <-done:
		return o
	case <-time.After(30 * time.Second):
		t.Fatal("no outcome")
		panic("unreachable")
	}
}

func pair(src, dst string) ifp.Filter {
	return ifp.Filter{Src: prefix(src), Dst: prefix(dst), Action: ifp.Block, ExpiresS: 60}
}

func codes(t *testing.T, o filterman.Outcome, want ...ifp.Code) {
	t.Helper()
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if len(o.Codes) != len(want) {
		t.Fatalf("codes %v, want %v", o.Codes, want)
	}
	for i := range want {
		if o.Codes[i] != want[i] {
			t.Errorf("code %d is %v, want %v", i, o.Codes[i], want[i])
		}
	}
}

func TestInstallStatsRemove(t *testing.T) {
	n := start(t, 0)
	a, b := pair("10.1.0.7/32", "198.51.100.1/32"), pair("10.2.0.7/32", "198.51.100.1/32")
	six := pair("2001:db8:1::7/128", "2001:db8:5::1/128")
	o := do(t, n, ifp.Install, true, a, b, six)
	codes(t, o, ifp.OK, ifp.OK, ifp.OK)
	if !o.Proven {
		t.Error("the proof of installation does not verify")
	}
	if n.Tables[0].Len() != 2 || n.Tables[1].Len() != 1 {
		t.Errorf("patrols have %d and %d filters, want 2 and 1", n.Tables[0].Len(), n.Tables[1].Len())
	}
	codes(t, do(t, n, ifp.Install, false, a), ifp.OK) // once more: the same filter
	if n.Tables[0].Len() != 2 {
		t.Errorf("a filter installed twice is there twice")
	}
	o = do(t, n, ifp.Stats, false, a, pair("10.1.0.8/32", "198.51.100.1/32"))
	if o.Err != nil || o.Stats[0].Code != ifp.OK || o.Stats[0].ExpiresS == 0 || o.Stats[1].Code != ifp.NotFound {
		t.Errorf("statistics %+v", o)
	}
	codes(t, do(t, n, ifp.Remove, false, a, a), ifp.OK, ifp.NotFound)
	// A destination-only filter goes to every patrol.
	codes(t, do(t, n, ifp.Install, false, pair("0.0.0.0/0", "198.51.100.9/32")), ifp.OK)
	if n.Tables[0].Len() != 2 || n.Tables[1].Len() != 2 {
		t.Errorf("destination-only: patrols have %d and %d filters, want 2 and 2", n.Tables[0].Len(), n.Tables[1].Len())
	}
}

func TestAuthority(t *testing.T) {
	n := start(t, 0)
	n.Authority.AddFilter(prefix("192.0.2.0/24"), netip.MustParseAddr("203.0.113.1")) // another network's
	src := "10.1.0.7/32"
	codes(t, do(t, n, ifp.Install, false,
		pair(src, "192.0.2.1/32"),              // another network's destination
		pair(src, "198.51.101.1/32"),           // a destination that is bound to no network
		pair(src, "198.51.100.0/23"),           // wider than the authorised prefix
		pair(src, "198.51.100.0/24"),           // exactly the authorised prefix
		pair("10.3.0.1/32", "198.51.100.1/32"), // a source behind no patrol
	), ifp.NotAuthorised, ifp.NotAuthorised, ifp.NotAuthorised, ifp.OK, ifp.NoPatrol)
	bm := netip.PrefixFrom(n.BM.Addr.Addr(), 32)
	n.Authority.AddFilter(prefix("127.0.0.0/8"), n.BM.Addr.Addr())
	codes(t, do(t, n, ifp.Install, false, ifp.Filter{Src: prefix("0.0.0.0/0"), Dst: bm, Action: ifp.Block}), ifp.Protected)
	if got := n.Border.Count.NotAuthorised.Load(); got != 3 {
		t.Errorf("%d not authorised, want 3", got)
	}
}

// III.D: what a conditional request becomes depends on how it arrived. The engine
// sends with the codepoint, so its request arrives with TS=1; another is sent without.
func TestConditional(t *testing.T) {
	n := start(t, 0)
	victim, reflector := "198.51.100.1/32", "10.1.0.53/32"
	f := ifp.Filter{Src: prefix(victim), Dst: prefix(reflector), Action: ifp.Block}
	codes(t, do(t, n, ifp.Conditional, false, f), ifp.OK)
	found := func() (list []ifp.Filter) {
		n.Tables[0].Each(0, func(f ifp.Filter, _ ifp.Stat) bool { list = append(list, f); return true })
		return list
	}
	list := found()
	if len(list) != 1 || list[0].Action != ifp.BlockTS0 || list[0].Direction != ifp.ToCustomer || list[0].Src != prefix(victim) {
		t.Fatalf("with TS=1: %v", list)
	}
	codes(t, do(t, n, ifp.Remove, false, list[0]), ifp.OK)
	plain, err := filterman.NewEngine(netip.MustParseAddrPort("127.0.0.1:0"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	done := make(chan filterman.Outcome, 1)
	plain.Do(filterman.Job{Kind: ifp.Conditional, Filters: []ifp.Filter{f}, BM: n.BM, Done: func(o filterman.Outcome) { done <- o }})
	codes(t, <-done, ifp.OK)
	list = found()
	if len(list) != 1 || list[0].Action != ifp.ClearTS || list[0].Direction != ifp.FromCustomer || list[0].Dst != prefix(victim) {
		t.Fatalf("with TS=0: %v", list)
	}
}

// raw sends one datagram and waits for the answer; nil if none comes.
func raw(t *testing.T, to netip.AddrPort, message []byte) []byte {
	t.Helper()
	c, err := net.Dial("udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(message); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	b := make([]byte, 2000)
	k, err := c.Read(b)
	if err != nil {
		return nil
	}
	return b[:k]
}

// A sender that has not returned a nonce leaves no state behind, whatever it sends; and the
// nonce of one sender is no use to another.
func TestUnverifiedLeavesNothing(t *testing.T) {
	n := start(t, 0)
	f := pair("10.1.0.7/32", "198.51.100.1/32")
	first := ifp.AppendRequest(nil, ifp.Install, 0, 77, 0, []ifp.Filter{f})
	answer := raw(t, n.BM.Addr, first)
	h, err := ifp.ReadHeader(answer)
	if err != nil || h.Type != ifp.Nonce || h.Request != 77 || h.Nonce == 0 || len(answer) > len(first) {
		t.Fatalf("answer to a first request: %+v, %v", h, err)
	}
	// Another socket (another port) echoes it.
	echo := ifp.AppendRequest(nil, ifp.Install, 0, 77, h.Nonce, []ifp.Filter{f})
	h, err = ifp.ReadHeader(raw(t, n.BM.Addr, echo))
	if err != nil || h.Type != ifp.Error || h.Code != ifp.StaleNonce {
		t.Errorf("a stolen nonce: %+v, %v", h, err)
	}
	for i := range 2000 { // guesses
		c := ifp.AppendRequest(nil, ifp.Install, 0, uint64(i), uint64(i)*0x9e3779b97f4a7c15+1, []ifp.Filter{f})
		_ = c
		if i%500 == 0 {
			if h, _ := ifp.ReadHeader(raw(t, n.BM.Addr, c)); h.Code != ifp.StaleNonce {
				t.Errorf("a guess: %+v", h)
			}
		}
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": first[:10], "long": append(append([]byte{}, first...), 0),
		"an answer": ifp.AppendNonce(nil, 1, 2), "type 0": ifp.AppendRequest(nil, 0, 0, 1, 0, []ifp.Filter{f}),
	} {
		if a := raw(t, n.BM.Addr, b); a != nil {
			t.Errorf("%s: answered with %x", name, a)
		}
	}
	other := append([]byte{}, first...)
	other[0] = 9
	if h, _ := ifp.ReadHeader(raw(t, n.BM.Addr, other)); h.Code != ifp.BadVersion {
		t.Errorf("another version: %+v", h)
	}
	if n.Border.Pending() != 0 || n.Border.Count.Verified.Load() != 0 || n.Tables[0].Len() != 0 {
		t.Errorf("unverified requests left %d pending, %d verified, %d filters", n.Border.Pending(), n.Border.Count.Verified.Load(), n.Tables[0].Len())
	}
}

// A nonce covers the filters: they cannot be replaced by others.
func TestNonceCoversFilters(t *testing.T) {
	n := start(t, 0)
	c, err := net.Dial("udp", n.BM.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(m []byte) ifp.Header {
		t.Helper()
		if _, err := c.Write(m); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		b := make([]byte, 2000)
		k, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ifp.ReadHeader(b[:k])
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	f, g := pair("10.1.0.7/32", "198.51.100.1/32"), pair("10.1.0.8/32", "198.51.100.1/32")
	h := ask(ifp.AppendRequest(nil, ifp.Install, 0, 5, 0, []ifp.Filter{f}))
	for name, m := range map[string][]byte{
		"other filters": ifp.AppendRequest(nil, ifp.Install, 0, 5, h.Nonce, []ifp.Filter{g}),
		"more filters":  ifp.AppendRequest(nil, ifp.Install, 0, 5, h.Nonce, []ifp.Filter{f, g}),
		"other number":  ifp.AppendRequest(nil, ifp.Install, 0, 6, h.Nonce, []ifp.Filter{f}),
		"other type":    ifp.AppendRequest(nil, ifp.Remove, 0, 5, h.Nonce, []ifp.Filter{f}),
		"other flags":   ifp.AppendRequest(nil, ifp.Install, 1, 5, h.Nonce, []ifp.Filter{f}),
		"other nonce":   ifp.AppendRequest(nil, ifp.Install, 0, 5, h.Nonce^2, []ifp.Filter{f}),
	} {
		if h := ask(m); h.Type != ifp.Error || h.Code != ifp.StaleNonce {
			t.Errorf("%s: %+v", name, h)
		}
	}
	again := ifp.AppendRequest(nil, ifp.Install, 0, 5, h.Nonce, []ifp.Filter{f})
	for range 3 { // repeating one's own request has the same effect
		if h := ask(again); h.Type != ifp.Result {
			t.Errorf("the true echo: %+v", h)
		}
	}
	if n.Tables[0].Len() != 1 {
		t.Errorf("%d filters", n.Tables[0].Len())
	}
}

func TestRateLimit(t *testing.T) {
	n := start(t, 10)
	var filters []ifp.Filter
	for i := range 8 {
		filters = append(filters, ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 32),
			Dst: prefix("198.51.100.1/32"), Action: ifp.Block})
	}
	begin := time.Now()
	codes(t, do(t, n, ifp.Install, false, filters...), make([]ifp.Code, 8)...)
	codes(t, do(t, n, ifp.Install, false, filters...), make([]ifp.Code, 8)...) // asks again when the answer is that it is too much
	if n.Border.Count.Busy.Load() == 0 || time.Since(begin) < 300*time.Millisecond {
		t.Errorf("16 filters at 10 a second took %v and met %d refusals", time.Since(begin), n.Border.Count.Busy.Load())
	}
}

// A patrol that goes away answers with an error, and is found again when it is back.
func TestNoAnswer(t *testing.T) {
	n := start(t, 0)
	n.Controls[1].Close()
	deadline := time.Now().Add(10 * time.Second)
	for n.Border.PatrolsUp() != 1 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	codes(t, do(t, n, ifp.Install, false, pair("10.2.0.7/32", "198.51.100.1/32"), pair("10.1.0.7/32", "198.51.100.1/32")), ifp.PatrolDown, ifp.OK)
}

func newManager(n *upstreamtest.Net) *filterman.Manager {
	return filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: own,
		Never: []netip.Prefix{prefix("10.1.99.0/24")}, Expires: time.Minute, Idle: time.Hour, Proof: true, Log: n.Log})
}

func add(t *testing.T, m *filterman.Manager, r filterman.Request) (filterman.Entry, error) {
	t.Helper()
	type answer struct {
		e   filterman.Entry
		err error
	}
	done := make(chan answer, 1)
	if err := m.Add(r, func(e filterman.Entry, err error) { done <- answer{e, err} }); err != nil {
		return filterman.Entry{}, err
	}
	a := <-done
	return a.e, a.err
}

func TestManagerJudges(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	dst := prefix("198.51.100.1/32")
	for name, c := range map[string]struct {
		r    filterman.Request
		want error
	}{
		"no codepoint":    {filterman.Request{Src: prefix("10.1.0.1/32"), Dst: dst, Witness: filterman.SeenNoTS}, filterman.ErrNotTrue},
		"not known":       {filterman.Request{Src: prefix("10.1.0.1/32"), Dst: dst, Witness: filterman.SeenUnknown}, filterman.ErrNotTrue},
		"nothing said":    {filterman.Request{Src: prefix("10.1.0.1/32"), Dst: dst}, filterman.ErrNotTrue},
		"not ours":        {filterman.Request{Src: prefix("10.1.0.1/32"), Dst: prefix("192.0.2.1/32"), Witness: filterman.SeenTS}, filterman.ErrNotOurs},
		"wider than ours": {filterman.Request{Src: prefix("10.1.0.1/32"), Dst: prefix("198.51.100.0/23"), Witness: filterman.SeenTS}, filterman.ErrNotOurs},
		"excepted":        {filterman.Request{Src: prefix("10.1.99.1/32"), Dst: dst, Witness: filterman.SeenTS}, filterman.ErrNever},
		"no border":       {filterman.Request{Src: prefix("172.16.0.1/32"), Dst: dst, Witness: filterman.SeenTS}, filterman.ErrNoBorder},
	} {
		if _, err := add(t, m, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if n.Engine.Sent.Load() != 0 {
		t.Error("something was asked for all the same")
	}
	for _, w := range []filterman.Witness{filterman.SeenTS, filterman.Handshake} {
		e, err := add(t, m, filterman.Request{Src: prefix("10.1.0.1/32"), Dst: dst, Witness: w})
		if err != nil || e.State != filterman.Installed || !e.Proven {
			t.Errorf("%s: %+v, %v", w, e, err)
		}
	}
	if n.Tables[0].Len() != 1 || len(m.List()) != 1 {
		t.Errorf("%d filters, %d listed", n.Tables[0].Len(), len(m.List()))
	}
}

func TestManagerRemovesWhatIsNotHit(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	if _, err := add(t, m, filterman.Request{Src: prefix("10.1.0.1/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS}); err != nil {
		t.Fatal(err)
	}
	if _, err := add(t, m, filterman.Request{Src: prefix("10.1.0.53/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS, Reflected: true}); err != nil {
		t.Fatal(err)
	}
	m.Tick(time.Now())
	if n.Tables[0].Len() != 2 {
		t.Fatalf("%d filters", n.Tables[0].Len())
	}
	m.Tick(time.Now().Add(2 * time.Hour))
	for deadline := time.Now().Add(10 * time.Second); n.Tables[0].Len() != 0 || len(m.List()) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d filters and %d entries are left", n.Tables[0].Len(), len(m.List()))
		}
	}
}

// A filter whose border manager is gone for good is listed until it has expired, and no longer.
func TestExpiredFilterOfALostBorderManager(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	if _, err := add(t, m, filterman.Request{Src: prefix("10.1.0.1/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS, Expires: 3 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	n.Engine.Close() // from now on nothing is answered
	m.Tick(time.Now().Add(2 * time.Hour))
	if len(m.List()) != 1 {
		t.Error("a filter that is still in force is forgotten")
	}
	m.Tick(time.Now().Add(4 * time.Hour))
	if len(m.List()) != 0 {
		t.Error("a filter that has expired is still listed")
	}
}

func TestStaticFile(t *testing.T) {
	for text, want := range map[string]string{
		"border 10.0.0.0/8 192.0.2.1:4747\nfilter 198.51.100.0/24 192.0.2.9 # ours\n": "",
		"border 10.0.0.0/8\n":               "is not a binding",
		"border 10.0.0.0/40 192.0.2.1:1":    "10.0.0.0/40",
		"border 10.0.0.0/8 192.0.2.1:1 xyz": "not a public key",
		"filter 10.0.0.0/8 nobody":          "nobody",
	} {
		path := t.TempDir() + "/bindings"
		writeFile(t, path, text)
		s, err := upstream.LoadStatic(path)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := s.BorderManagerFor(netip.MustParseAddr("10.9.9.9")); !ok || e.Addr.Port() != 4747 {
			t.Errorf("%v %v", e, ok)
		}
		_, first := s.FilterManagerMayRequest(netip.MustParseAddr("192.0.2.9"), prefix("198.51.100.7/32"))
		if _, second := s.FilterManagerMayRequest(netip.MustParseAddr("192.0.2.8"), prefix("198.51.100.7/32")); !first || second {
			t.Error("authority of filter managers")
		}
	}
}
