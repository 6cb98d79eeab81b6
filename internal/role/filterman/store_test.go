// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
	"tidegate/internal/upstreamtest"
)

// storing is a manager with a store, and the result of Restore.
func storing(t *testing.T, n *upstreamtest.Net, path string, now time.Time, owns, never []netip.Prefix) (m *filterman.Manager, s *filterman.Store, restored int) {
	t.Helper()
	s, list, aside, err := filterman.OpenStore(path)
	if err != nil || aside != nil {
		t.Fatal(err, aside)
	}
	m = filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: owns, Never: never,
		Expires: time.Minute, Idle: time.Hour, Proof: true, Log: slog.New(slog.DiscardHandler), Store: s})
	return m, s, m.Restore(list, now)
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// A restarted manager knows the filters of the earlier one, and can remove them.
func TestFiltersSurviveARestart(t *testing.T) {
	n := start(t, 0)
	path := filepath.Join(t.TempDir(), "filters.db")
	m, s, _ := storing(t, n, path, time.Now(), own, nil)
	for _, r := range []filterman.Request{
		{Src: prefix("10.1.0.1/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS},
		{Src: prefix("10.1.0.2/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.Handshake, Detector: "ids"},
		{Src: prefix("10.1.0.53/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS, Reflected: true},
		{Src: prefix("2001:db8:1::7/128"), Dst: prefix("2001:db8:5::1/128"), Witness: filterman.SeenTS},
		{Src: prefix("10.1.0.9/32"), Dst: prefix("198.51.100.9/32"), Witness: filterman.SeenTS, Expires: 2 * time.Second},
	} {
		if _, err := add(t, m, r); err != nil {
			t.Fatal(err)
		}
	}
	before := n.Tables[0].Len()
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // as after kill -9: nothing else is written
		t.Fatal(err)
	}

	m, s, restored := storing(t, n, path, time.Now().Add(3*time.Second), own, []netip.Prefix{prefix("10.1.0.2/32")})
	if restored != 3 || len(m.List()) != 3 {
		t.Errorf("%d filters taken over, %d listed, want 3: one has expired, one is not allowed any more", restored, len(m.List()))
	}
	until(t, "the filter that is not allowed any more was not taken back", func() bool { return n.Tables[0].Len() == before-1 })
	m.Tick(time.Now()) // those that the border manager does not know would be forgotten
	for _, e := range m.List() {
		if e.State != filterman.Installed || e.Since == 0 {
			t.Errorf("%+v", e)
		}
		if err := m.Remove(e.Src, e.Dst, nil); err != nil {
			t.Error(err)
		}
	}
	until(t, "filters of the process before were not taken back", func() bool { return len(m.List()) == 0 })
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, s, restored := storing(t, n, path, time.Now(), own, nil); restored != 0 {
		t.Errorf("%d filters were taken back and are there again", restored)
	} else {
		s.Close()
	}
}

// Requests that were not answered are sent again.
func TestUnansweredFiltersAreAskedForAgain(t *testing.T) {
	n := start(t, 0)
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n.Authority.AddBorder(prefix("10.9.0.0/16"), upstream.Endpoint{Addr: silent.LocalAddr().(*net.UDPAddr).AddrPort()})
	path := filepath.Join(t.TempDir(), "filters.db")
	heard := func() (from netip.AddrPort) {
		t.Helper()
		if err := silent.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := silent.ReadFromUDPAddrPort(make([]byte, 2048))
		if err != nil {
			t.Fatal("the border manager was not asked: ", err)
		}
		return from
	}
	m, s, _ := storing(t, n, path, time.Now(), own, nil)
	if err := m.Add(filterman.Request{Src: prefix("10.9.0.1/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS}, nil); err != nil {
		t.Fatal(err)
	}
	first := heard()
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	engine, err := filterman.NewEngine(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.8"), 0), 47)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	n.Engine.Close() // the first process's retransmits are not taken for the second's
	again := *n
	again.Engine = engine
	_, s, restored := storing(t, &again, path, time.Now(), own, nil)
	defer s.Close()
	for from := heard(); from == first; from = heard() {
	}
	if restored != 1 {
		t.Errorf("%d filters taken over, want 1", restored)
	}
}

// A file that is damaged is moved aside; one that another manager has open is an error.
func TestDamagedStore(t *testing.T) {
	n := start(t, 0)
	path := filepath.Join(t.TempDir(), "filters.db")
	m, s, _ := storing(t, n, path, time.Now(), own, nil)
	if _, err := add(t, m, filterman.Request{Src: prefix("10.1.0.1/32"), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS}); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := filterman.OpenStore(path); err == nil {
		t.Error("a file that is in use was opened")
	}
	s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"truncated": whole[:len(whole)/2], "two pages": whole[:8192], "short": whole[:100], "foreign": []byte("hello, I am a text file that is here by mistake\n")} {
		at := filepath.Join(t.TempDir(), "filters.db")
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, list, aside, err := filterman.OpenStore(at)
		if err != nil || aside == nil || len(list) != 0 {
			t.Errorf("%s: %v, moved aside because %v, %d filters", name, err, aside, len(list))
			continue
		}
		s.Close()
		if left, err := os.ReadFile(at + ".broken"); err != nil || string(left) != string(text) {
			t.Errorf("%s: not kept aside: %v", name, err)
		}
	}
}
