// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/role/filterman"
	"tidegate/internal/role/patrol"
	"tidegate/internal/upstream"
	"tidegate/internal/upstreamtest"
)

// networks are n, a second network whose border manager n's filter manager knows, and a third, which does not accept
// its requests.
func networks(t *testing.T) (n, second, third *upstreamtest.Net) {
	t.Helper()
	n = start(t, 0)
	other := func(customers string, own []netip.Prefix) *upstreamtest.Net {
		p := []netip.Prefix{prefix(customers)}
		o, err := upstreamtest.New(upstreamtest.Options{Prefixes: [][]netip.Prefix{p}, Own: own, Capacity: 1000})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(o.Close)
		n.Authority.AddBorder(p[0], o.BM)
		return o
	}
	return n, other("10.3.0.0/16", own), other("10.4.0.0/16", nil)
}

func ts(src string) filterman.Request {
	return filterman.Request{Src: prefix(src), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS}
}

// patrolsHave checks how many filters the patrols of two networks have.
func patrolsHave(t *testing.T, n, second *upstreamtest.Net, want ...int) {
	t.Helper()
	if got := []int{n.Tables[0].Len(), n.Tables[1].Len(), second.Tables[0].Len()}; !slices.Equal(got, want) {
		t.Errorf("the patrols have %v filters, want %v", got, want)
	}
}

func remove(t *testing.T, m *filterman.Manager, src string) {
	t.Helper()
	done := make(chan error, 1)
	if err := m.Remove(prefix(src), prefix("198.51.100.1/32"), func(_ filterman.Entry, err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A source that spans several networks is filtered in all of them, and no longer filtered in any after its removal.
func TestWideSourceGoesToEveryBorderManager(t *testing.T) {
	n, second, _ := networks(t)
	m := newManager(n)
	e, err := add(t, m, ts("10.2.0.0/15"))
	if err != nil || e.State != filterman.Installed || !e.Proven || len(e.Borders) != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	patrolsHave(t, n, second, 0, 1, 1)
	if e, err := add(t, m, ts("10.3.7.0/24")); err != nil || e.State != filterman.Installed || e.Borders != nil || *e.BM != second.BM.Addr {
		t.Fatalf("within one network: %+v, %v", e, err)
	}
	patrolsHave(t, n, second, 0, 1, 2)
	remove(t, m, "10.2.0.0/15")
	patrolsHave(t, n, second, 0, 0, 1)
	r := ts("10.2.0.0/15")
	r.Reflected = true
	if e, err := add(t, m, r); err != nil || e.State != filterman.Installed {
		t.Fatalf("reflectors: %+v, %v", e, err)
	}
	patrolsHave(t, n, second, 0, 1, 2)
	m.Tick(time.Now().Add(2 * time.Hour)) // none has matched anything
	until(t, "idle filters are still there", func() bool { return len(m.List()) == 0 })
	patrolsHave(t, n, second, 0, 0, 0)
	if _, err := add(t, m, ts("192.0.2.0/24")); !errors.Is(err, filterman.ErrNoBorder) {
		t.Errorf("no network has the source: %v", err)
	}
}

// A filter that one of its border managers refuses is not reported as installed; it is removed where it is.
func TestWideSourceThatOneBorderManagerRefuses(t *testing.T) {
	n, second, third := networks(t)
	m := filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: own, Expires: time.Minute, Proof: true, Log: n.Log})
	e, err := add(t, m, ts("10.0.0.0/13"))
	if err == nil || !strings.Contains(err.Error(), "1 of 3 border managers have not installed it; "+third.BM.Addr.String()+": NOT_AUTHORISED") {
		t.Errorf("%v", err)
	}
	if e.State != filterman.Partial || e.Code != err.Error() || !e.Proven {
		t.Errorf("%+v", e)
	}
	patrolsHave(t, n, second, 1, 1, 1)
	remove(t, m, "10.0.0.0/13")
	patrolsHave(t, n, second, 0, 0, 0)
	if e, err := add(t, m, ts("10.4.0.0/24")); err == nil || e.State != filterman.Refused {
		t.Errorf("%+v, %v", e, err)
	}
}

// A network that no longer has the filter does not end it for the others.
func TestWideFilterThatExpiresInOneNetwork(t *testing.T) {
	n, second, _ := networks(t)
	m := newManager(n)
	if _, err := add(t, m, ts("10.2.0.0/15")); err != nil {
		t.Fatal(err)
	}
	lose := func(table *patrol.Table) {
		t.Helper()
		if table.Sweep(monotonicS(t)+3600) != 1 {
			t.Fatal("nothing has expired")
		}
		m.Tick(time.Now())
	}
	lose(second.Tables[0])
	until(t, "the loss was not noticed", func() bool {
		e := m.List()[0]
		return e.State == filterman.Installed && (e.Borders[0].State == filterman.Gone) != (e.Borders[1].State == filterman.Gone)
	})
	lose(n.Tables[1])
	until(t, "a filter that nobody has is still listed", func() bool { return len(m.List()) == 0 })
}

// A restarted manager knows at which border managers a filter is, and asks those again that had not answered.
func TestWideFilterSurvivesARestart(t *testing.T) {
	n, second, _ := networks(t)
	path := filepath.Join(t.TempDir(), "filters.db")
	m, s, _ := storing(t, n, path, time.Now(), own, nil)
	e, err := add(t, m, ts("10.0.0.0/13"))
	if err == nil {
		t.Fatal("the third network's border manager did not refuse")
	}
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	m, s, restored := storing(t, n, path, time.Now(), own, nil)
	defer s.Close()
	list := m.List()
	if restored != 1 || len(list) != 1 || list[0].State != filterman.Partial || list[0].Code != e.Code || len(list[0].Borders) != 3 {
		t.Fatalf("%d restored: %+v", restored, list)
	}
	remove(t, m, "10.0.0.0/13")
	patrolsHave(t, n, second, 0, 0, 0)
}

// More networks than one request may reach are refused by name, and nothing is requested.
func TestSourceInTooManyNetworks(t *testing.T) {
	n := start(t, 0)
	for i := range 257 {
		n.Authority.AddBorder(netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 0}), 24),
			upstream.Endpoint{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(i+1))})
	}
	if _, err := add(t, newManager(n), ts("11.0.0.0/8")); !errors.Is(err, filterman.ErrTooWide) {
		t.Errorf("%v", err)
	}
	if n.Engine.Sent.Load() != 0 {
		t.Error("something was requested all the same")
	}
}
