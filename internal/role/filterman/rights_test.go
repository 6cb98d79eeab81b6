// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/role/filterman"
	"tidegate/internal/upstreamtest"
)

// another is a filter manager at an address of its own, with authority over prefixes.
func another(t *testing.T, n *upstreamtest.Net, at string, prefixes ...string) *filterman.Engine {
	t.Helper()
	addr := netip.MustParseAddr(at)
	e, err := filterman.NewEngine(netip.AddrPortFrom(addr, 0), 47)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	for _, p := range prefixes {
		n.Authority.AddFilter(prefix(p), addr)
	}
	return e
}

func ask(t *testing.T, e *filterman.Engine, n *upstreamtest.Net, kind ifp.Type, filters ...ifp.Filter) filterman.Outcome {
	t.Helper()
	done := make(chan filterman.Outcome, 1)
	e.Do(filterman.Job{Kind: kind, Filters: filters, BM: n.BM, Proof: true, Done: func(o filterman.Outcome) { done <- o }})
	select {
	case o := <-done:
		return o
	case <-time.After(30 * time.Second):
		t.Fatal("no outcome")
		panic("unreachable")
	}
}

func actions(n *upstreamtest.Net) (list []ifp.Action) {
	n.Tables[0].Each(0, func(f ifp.Filter, _ ifp.Stat) bool { list = append(list, f.Action); return true })
	return list
}

// The owner of a source may refuse traffic that falsely claims to come from it. He cannot touch
// filters requested by the owner of the destination, and the other way round.
func TestRightsGoByTheStoredFilter(t *testing.T) {
	n := start(t, 0)
	victim := another(t, n, "127.0.0.5", "10.1.0.0/16")
	claimed := another(t, n, "127.0.0.6", "203.0.113.0/24")
	block := ifp.Filter{Src: prefix("203.0.113.5/32"), Dst: prefix("10.1.0.9/32"), Action: ifp.Block, Direction: ifp.ToCustomer}
	only := block
	only.Action = ifp.BlockTS0
	codes(t, ask(t, victim, n, ifp.Install, block), ifp.OK)
	codes(t, ask(t, claimed, n, ifp.Install, block), ifp.NotAuthorised)
	codes(t, ask(t, claimed, n, ifp.Remove, only), ifp.NotFound) // under a filter he may request
	if got := actions(n); len(got) != 1 || got[0] != ifp.Block {
		t.Fatalf("the owner of the source has lifted the destination's filter: %v are left", got)
	}
	if o := ask(t, claimed, n, ifp.Stats, only); o.Err != nil || o.Stats[0].Code != ifp.NotFound {
		t.Errorf("he reads its counters: %+v", o)
	}
	short := only
	short.ExpiresS = 1
	codes(t, ask(t, claimed, n, ifp.Install, short), ifp.OK) // his own filter, beside the other
	if got := actions(n); len(got) != 2 {
		t.Fatalf("after his own filter there are %v, want BLOCK and BLOCK_TS0", got)
	}
	codes(t, ask(t, victim, n, ifp.Remove, block), ifp.OK)
	if got := actions(n); len(got) != 1 || got[0] != ifp.BlockTS0 {
		t.Fatalf("the destination has lifted the source's filter: %v are left", got)
	}
	codes(t, ask(t, victim, n, ifp.Remove, only), ifp.NotFound)
	codes(t, ask(t, claimed, n, ifp.Remove, only), ifp.OK)
	// An owner of both removes both.
	both := another(t, n, "127.0.0.7", "10.1.0.0/16", "203.0.113.0/24")
	codes(t, ask(t, victim, n, ifp.Install, block), ifp.OK)
	codes(t, ask(t, claimed, n, ifp.Install, only), ifp.OK)
	codes(t, ask(t, both, n, ifp.Remove, only), ifp.OK)
	if got := actions(n); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

// One network's wide filters do not lock another's out; a network that gets no place gets the reason.
func TestWideFiltersOfTwoNetworks(t *testing.T) {
	n := start(t, 0)
	greedy := another(t, n, "127.0.0.5", "203.0.113.0/24")
	wide := func(bits int, dst string) ifp.Filter {
		return ifp.Filter{Src: netip.PrefixFrom(netip.MustParseAddr("10.1.0.0"), bits).Masked(), Dst: prefix(dst), Action: ifp.Block}
	}
	var list []ifp.Filter
	var want []ifp.Code
	for i := range 12 {
		list, want = append(list, wide(17+i, "203.0.113.0/25")), append(want, ifp.OK)
		if i >= 5 {
			want[i] = ifp.OverShare
		}
	}
	codes(t, ask(t, greedy, n, ifp.Install, list...), want...)
	codes(t, do(t, n, ifp.Install, false, wide(32, "198.51.100.1/32"), wide(24, "198.51.100.1/32"), wide(0, "198.51.100.1/32"),
		wide(22, "198.51.100.0/24")), ifp.OK, ifp.OK, ifp.OK, ifp.OK)
	if got := n.Border.Count.NoPlace.Load(); got != 7 {
		t.Errorf("%d filters without a place were counted, want 7", got)
	}
	n.Authority.AddFilter(prefix("203.0.113.0/24"), netip.MustParseAddr("127.0.0.1")) // the greedy one's other manager
	m := filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: []netip.Prefix{prefix("203.0.113.0/24")},
		Expires: time.Minute, Idle: time.Hour, Log: n.Log})
	_, err := add(t, m, filterman.Request{Src: prefix("10.1.0.0/31"), Dst: prefix("203.0.113.0/25"), Witness: filterman.SeenTS})
	if err == nil || !strings.Contains(err.Error(), "OVER_SHARE") || !strings.Contains(err.Error(), "/31 to /25") || !strings.Contains(err.Error(), "/24 or /0 to /32") {
		t.Errorf("%v", err)
	}
}
