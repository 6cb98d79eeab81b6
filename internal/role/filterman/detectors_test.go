// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
	"tidegate/internal/upstreamtest"
)

// detectorsOn serves a manager's API by TLS and returns where: KEY@ADDRESS:PORT.
func detectorsOn(t *testing.T, m *filterman.Manager) string {
	t.Helper()
	id := upstreamtest.NewIdentity()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := filterman.ServeDetectors(m, id, l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return upstream.FormatKey(id.Public()) + "@" + l.Addr().String()
}

func clientOf(t *testing.T, at string, id *upstream.Identity) *filterman.Client {
	t.Helper()
	c, err := filterman.NewRemoteClient(at, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requests are filters of sources from 10.1.0.(first).
func requests(first, n int) (list []filterman.Request) {
	for i := range n {
		list = append(list, ts(fmt.Sprintf("10.1.0.%d/32", first+i)))
	}
	return list
}

func refused(v []filterman.Verdict) (n int) {
	for _, one := range v {
		if one.State != filterman.Installed {
			n++
		}
	}
	return n
}

// A detector on another machine requests, lists and removes its own filters, and nobody else's; its quota is its own.
func TestRemoteDetectors(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	at := detectorsOn(t, m)
	one, two, stranger := upstreamtest.NewIdentity(), upstreamtest.NewIdentity(), upstreamtest.NewIdentity()
	both := []filterman.Detector{{Name: "one", Key: one.Public(), Filters: 5}, {Name: "two", Key: two.Public(), Filters: 100}}
	m.SetDetectors(both)
	if _, err := add(t, m, ts("10.1.0.100/32")); err != nil { // this machine's
		t.Fatal(err)
	}
	first, second := clientOf(t, at, one), clientOf(t, at, two)
	mine := requests(1, 6)
	mine[0].Detector = "somebody else"
	v, err := first.Add(t.Context(), mine)
	if err != nil || refused(v) != 1 || !strings.Contains(v[5].Error, "as many filters as it may") {
		t.Fatalf("6 filters of a detector that may have 5: %+v, %v", v, err)
	}
	if v, err := first.Add(t.Context(), mine[:5]); err != nil || refused(v) != 0 {
		t.Errorf("the same once more: %+v, %v", v, err)
	}
	v, err = second.Add(t.Context(), append(requests(5, 3), ts("10.1.0.100/32")))
	if err != nil || refused(v) != 2 || !strings.Contains(v[0].Error, "another detector") || !strings.Contains(v[3].Error, "another detector") {
		t.Errorf("filters of others: %+v, %v", v, err)
	}
	for name, c := range map[string]struct {
		client *filterman.Client
		want   int
	}{"tls:one": {first, 5}, "tls:two": {second, 2}} {
		list, err := c.client.List(t.Context())
		if err != nil || len(list) != c.want {
			t.Fatalf("%s sees %d filters, want %d: %v", name, len(list), c.want, err)
		}
		for _, e := range list {
			if e.Detector != name || e.State != filterman.Installed {
				t.Errorf("%s sees %+v", name, e)
			}
		}
	}
	dst := prefix("198.51.100.1/32")
	for _, src := range []string{"10.1.0.1/32", "10.1.0.100/32"} {
		if err := second.Remove(t.Context(), prefix(src), dst); err == nil || !strings.Contains(err.Error(), "no such filter") {
			t.Errorf("removal of somebody else's filter %s: %v", src, err)
		}
	}
	if err := first.Remove(t.Context(), prefix("10.1.0.1/32"), dst); err != nil {
		t.Error(err)
	}
	if v, err := first.Add(t.Context(), requests(20, 1)); err != nil || refused(v) != 0 {
		t.Errorf("after a removal there is room again: %+v, %v", v, err)
	}
	for name, c := range map[string]*filterman.Client{
		"a stranger": clientOf(t, at, stranger),
		"a detector that takes somebody else for the manager": clientOf(t, upstream.FormatKey(stranger.Public())+at[strings.IndexByte(at, '@'):], one),
	} {
		if _, err := c.List(t.Context()); err == nil {
			t.Errorf("%s is answered", name)
		}
	}
	m.SetDetectors(both[1:])
	if _, err := first.List(t.Context()); err == nil {
		t.Error("a detector whose key was removed is answered")
	}
	if _, err := second.List(t.Context()); err != nil {
		t.Error(err)
	}
}

// A connection that was there before its key was removed is refused, too.
func TestRevokedDetectorStaysConnected(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	at := detectorsOn(t, m)
	id := upstreamtest.NewIdentity()
	m.SetDetectors([]filterman.Detector{{Name: "ids", Key: id.Public(), Filters: 5}})
	peer, err := upstream.ParsePeer(at)
	if err != nil {
		t.Fatal(err)
	}
	dial, err := id.Dialer(peer)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	status := func() int {
		t.Helper()
		if _, err := conn.Write([]byte("GET /v1/filters HTTP/1.1\r\nHost: filter-manager\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	m.SetDetectors(nil)
	if got := status(); got != http.StatusForbidden {
		t.Errorf("after its key was removed: status %d, want %d", got, http.StatusForbidden)
	}
}

// A compromised detector cannot occupy the manager: its requests are bounded in rate.
func TestRemoteDetectorsRate(t *testing.T) {
	n := start(t, 0)
	m := newManager(n)
	at := detectorsOn(t, m)
	id := upstreamtest.NewIdentity()
	m.SetDetectors([]filterman.Detector{{Name: "ids", Key: id.Public(), Filters: 1 << 20}})
	client := clientOf(t, at, id)
	var list []filterman.Request
	for i := range 4000 {
		r := ts("10.1.0.1/32")
		r.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32)
		list = append(list, r)
	}
	begin, granted := time.Now(), 0
	for range 2 {
		v, err := client.Add(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		granted += len(v) - refused(v)
		if most := 2048 + int(250*time.Since(begin).Seconds()) + 1; granted > most {
			t.Errorf("%d filters were granted, want at most %d", granted, most)
		}
		m.SetDetectors([]filterman.Detector{{Name: "ids", Key: id.Public(), Filters: 1 << 20}}) // a reload gives nothing back
	}
	looks := upstreamtest.NewIdentity()
	m.SetDetectors([]filterman.Detector{{Name: "looks", Key: looks.Public(), Filters: 1}})
	client = clientOf(t, at, looks)
	var err error
	for i := 0; i < 300 && err == nil; i++ {
		_, err = client.List(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "requests too much") {
		t.Errorf("300 lists: %v", err)
	}
	if v, err := clientOfSocket(t, m).Add(t.Context(), requests(1, 1)); err != nil || refused(v) != 0 {
		t.Errorf("this machine's detectors are not bounded by that: %+v, %v", v, err)
	}
}

func clientOfSocket(t *testing.T, m *filterman.Manager) *filterman.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api")
	l, err := filterman.ServeAPI(m, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return filterman.NewClient(path)
}
