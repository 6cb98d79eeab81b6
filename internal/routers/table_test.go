// SPDX-License-Identifier: Apache-2.0

package routers

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

var begin = time.Unix(1_800_000_000, 0)

func someTable() *Table {
	return NewTable(someRules, Limits{Max: 3, Expires: time.Minute, PerMinute: 6})
}

func bad(addr string) Offence { return Offence{Src: netip.MustParseAddr(addr), PerSecond: 1500} }

func TestOffenderExpiresAfterItStopped(t *testing.T) {
	tab := someTable()
	a, fresh := tab.Offend(Source, bad("198.51.100.200"), begin)
	if !fresh || a.Prefix.String() != "198.51.100.200/32" || !a.Until.Equal(begin.Add(time.Minute)) || a.ByHand {
		t.Fatalf("%v %+v", fresh, a)
	}
	if _, fresh := tab.Offend(Source, bad("198.51.100.200"), begin.Add(50*time.Second)); fresh {
		t.Error("it is announced twice")
	}
	if ended := tab.Expire(begin.Add(109 * time.Second)); len(ended) != 0 {
		t.Errorf("ended while it offends: %v", ended)
	}
	if ended := tab.Expire(begin.Add(110 * time.Second)); len(ended) != 1 || len(tab.List()) != 0 {
		t.Errorf("not ended: %v", ended)
	}
}

// A source that comes back soon is discarded longer each time, up to a bound; one that comes back late is not.
func TestRelapse(t *testing.T) {
	tab, now := someTable(), begin
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		a, fresh := tab.Offend(Source, bad("198.51.100.200"), now)
		if got := a.Until.Sub(now); !fresh || got != want*time.Minute || a.Relapses != i {
			t.Errorf("relapse %d: %v, %s, want %d minutes", i, fresh, got, want)
		}
		now = a.Until
		tab.Expire(now)
	}
	now = now.Add(time.Hour)
	tab.Expire(now)
	if a, _ := tab.Offend(Source, bad("198.51.100.200"), now); a.Relapses != 0 {
		t.Errorf("an hour later: %+v", a)
	}
	if len(tab.relapses) != 0 {
		t.Errorf("%d relapses are remembered for ever", len(tab.relapses))
	}
}

// However many offend, no more than Max are announced, no faster than PerMinute, and the operator has a place of his own.
func TestBounds(t *testing.T) {
	tab := someTable()
	for i := range 5 {
		tab.Offend(Source, bad(fmt.Sprintf("198.51.100.%d", 200+i)), begin)
	}
	if len(tab.List()) != 3 || tab.Refused != 2 {
		t.Errorf("%d announced, %d refused", len(tab.List()), tab.Refused)
	}
	for i := range 4 {
		_, err := tab.Announce(route(Source, fmt.Sprintf("198.51.100.%d/32", 220+i), ""), begin.Add(time.Hour), "", begin)
		if (i < 3) != (err == nil) || i == 3 && !errors.Is(err, ErrFull) {
			t.Errorf("by hand %d: %v", i, err)
		}
	}
	tab = NewTable(someRules, Limits{Max: 100, Expires: time.Minute, PerMinute: 6})
	announced := 0
	for i := range 60 { // a new one each second
		if _, fresh := tab.Offend(Source, bad(fmt.Sprintf("198.51.100.%d", 128+i)), begin.Add(time.Duration(i)*time.Second)); fresh {
			announced++
		}
	}
	if announced != 11 { // six at once, and one each ten seconds
		t.Errorf("%d announced in a minute", announced)
	}
}

func TestWhoIsSpared(t *testing.T) {
	tab := someTable()
	for _, addr := range []string{"203.0.113.7", "198.51.100.7", "10.9.0.5", "192.0.2.254", "127.0.0.1", "2001:db8::9"} {
		if _, fresh := tab.Offend(Source, bad(addr), begin); fresh {
			t.Errorf("%s is announced", addr)
		}
	}
	if tab.Spared != 6 || len(tab.List()) != 0 {
		t.Errorf("%d spared, %v", tab.Spared, tab.List())
	}
	// A flow to an address that is not ours: of others' traffic this gate says nothing.
	o := bad("198.51.100.200")
	o.Dst = netip.MustParseAddr("192.0.32.1")
	if _, fresh := tab.Offend(Flow, o, begin); fresh {
		t.Error("a flow to somebody else")
	}
}

// What the operator withdraws does not come back at once, and what he announces outlasts the offence.
func TestByHand(t *testing.T) {
	tab := someTable()
	a, _ := tab.Offend(Source, bad("198.51.100.200"), begin)
	if _, there := tab.Withdraw(a.Route, begin); !there {
		t.Fatal("it was not announced")
	}
	if _, there := tab.Withdraw(a.Route, begin); there {
		t.Error("withdrawn twice")
	}
	if _, fresh := tab.Offend(Source, bad("198.51.100.200"), begin.Add(59*time.Minute)); fresh {
		t.Error("it came back within an hour")
	}
	tab.Expire(begin.Add(time.Hour))
	if _, fresh := tab.Offend(Source, bad("198.51.100.200"), begin.Add(time.Hour)); !fresh || len(tab.pardons) != 0 {
		t.Error("it does not come back after an hour")
	}
	now := begin.Add(2 * time.Hour)
	if _, err := tab.Announce(a.Route, now.Add(3*time.Hour), "ticket 7", now); err != nil {
		t.Fatal(err)
	}
	if got, fresh := tab.Offend(Source, bad("198.51.100.200"), now); fresh || !got.ByHand || !got.Until.Equal(now.Add(3*time.Hour)) {
		t.Errorf("%+v", got)
	}
	if _, err := tab.Announce(route(Destination, "198.18.0.1/32", ""), now.Add(time.Hour), "", now); !errors.Is(err, ErrRefused) {
		t.Error("the rules do not hold by hand")
	}
	if _, err := tab.Announce(route(Destination, "203.0.113.1/32", ""), now, "", now); err == nil {
		t.Error("announced into the past")
	}
}

// An address that this machine gets later ends a route that names it.
func TestRecheck(t *testing.T) {
	tab := someTable()
	tab.Offend(Source, bad("198.51.100.200"), begin)
	tab.Offend(Source, bad("198.51.100.201"), begin)
	rules := someRules
	rules.Here = append(rules.Here, netip.MustParsePrefix("198.51.100.200/32"))
	tab.SetRules(rules)
	if ended := tab.Recheck(begin); len(ended) != 1 || ended[0].Prefix.Addr().String() != "198.51.100.200" || len(tab.List()) != 1 {
		t.Errorf("%v, left %v", ended, tab.List())
	}
}
