// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/upstream"
)

func words(addr string) (w [2]uint64, family uint8) {
	a := netip.MustParseAddr(addr)
	var b [16]byte
	copy(b[:], a.AsSlice())
	family = 6
	if a.Is4() {
		family = 4
	}
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}, family
}

func row(src string, turn uint64, handshakes, unmarked, invalid uint32) (p plane.Proven) {
	p.Src, p.Family = words(src)
	dst := "203.0.113.1"
	if p.Family == 6 {
		dst = "2001:db8:9::1"
	}
	p.Dst, _ = words(dst)
	p.TurnBefore, p.TurnAfter = turn, turn
	p.Handshakes, p.Unmarked, p.Invalid = handshakes, unmarked, invalid
	return p
}

func watcher() *Watcher {
	return New(nil, config.ReportTo{API: "x", Connections: 100, Invalid: 1000}, "a", slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func TestJudge(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		before, after plane.Proven
		want          string // source and witness; "": none
	}{
		"quiet":              {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 60, 0, 0), ""},
		"connections":        {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 300, 0, 0), "10.1.0.7/32 ts"},
		"IPv6":               {row("2001:db8::7", 1, 10, 0, 0), row("2001:db8::7", 1, 300, 0, 0), "2001:db8::7/128 ts"},
		"without codepoint":  {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 300, 290, 0), "10.1.0.7/32 no-ts"},
		"one of them":        {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 300, 1, 0), "10.1.0.7/32 no-ts"},
		"long ago":           {row("10.1.0.7", 1, 10, 5, 0), row("10.1.0.7", 1, 300, 5, 0), "10.1.0.7/32 ts"},
		"invalid":            {row("10.1.0.7", 1, 10, 0, 5), row("10.1.0.7", 1, 11, 0, 2005), "10.1.0.7/32 ts"},
		"some invalid":       {row("10.1.0.7", 1, 10, 0, 5), row("10.1.0.7", 1, 11, 0, 905), ""},
		"a new owner":        {row("10.1.0.8", 1, 10, 0, 0), row("10.1.0.7", 2, 300, 0, 0), ""},
		"came back":          {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 3, 300, 0, 0), ""},
		"torn address":       {row("10.1.0.8", 1, 10, 0, 0), row("10.1.0.7", 1, 300, 0, 0), ""},
		"counters wrap":      {row("10.1.0.7", 1, 0xffffffff, 0, 0), row("10.1.0.7", 1, 200, 0, 0), "10.1.0.7/32 ts"},
		"nobody":             {plane.Proven{}, plane.Proven{Handshakes: 300}, ""},
		"family of no sense": {row("10.1.0.7", 1, 10, 0, 0), func() plane.Proven { p := row("10.1.0.7", 1, 300, 0, 0); p.Family = 5; return p }(), ""},
		"moving in":          {row("10.1.0.7", 1, 10, 0, 0), func() plane.Proven { p := row("10.1.0.7", 1, 300, 0, 0); p.TurnBefore++; return p }(), ""},
	} {
		w := watcher()
		if list := w.judge([]plane.Proven{c.before}, begin); len(list) != 0 {
			t.Errorf("%s: the first look knows no rate, and says %v", name, list)
		}
		got := ""
		for _, r := range w.judge([]plane.Proven{c.after}, begin.Add(time.Second)) {
			got += r.Src.String() + " " + r.Witness
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Two CPUs together may exceed a limit, and what was reported is not reported again at once.
func TestJudgeAddsCPUs(t *testing.T) {
	w, at := watcher(), time.Unix(1000, 0)
	rows := func(n uint32) []plane.Proven {
		return []plane.Proven{row("10.1.0.7", 1, n, 0, 0), row("10.1.0.7", 4, n, 0, 0)}
	}
	w.judge(rows(0), at)
	for i, want := range []int{1, 0, 0, 1} {
		at = at.Add(4 * time.Second)
		if list := w.judge(rows(uint32(i+1)*250), at); len(list) != want {
			t.Errorf("look %d: %v, want %d", i, list, want)
		}
	}
}

// answering serves as a filter manager that refuses everything, and returns what was posted.
func answering(l net.Listener, got *[]map[string]string) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(got)
		_, _ = io.WriteString(w, `[{"src":"10.1.0.7/32","dst":"203.0.113.1/32","state":"refused","error":"why"}]`)
	}))
}

// What is posted is what the API of a filter manager reads, and its verdicts are returned: by its socket, and by TLS.
func TestPost(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, "api"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, name := range []string{"gate", "stranger", "manager"} {
		if err := keys.CreateSecret(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	identity := func(name string) *upstream.Identity {
		id, err := upstream.LoadIdentity(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	gate, manager := identity("gate"), identity("manager")
	tls, err := manager.TLS(gate.Public())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := upstream.ListenPeers(raw, tls, 8, slog.New(slog.DiscardHandler))
	defer peers.Close()
	remote := upstream.FormatKey(manager.Public()) + "@" + raw.Addr().String()
	list := []Report{{Src: netip.MustParsePrefix("10.1.0.7/32"), Dst: netip.MustParsePrefix("203.0.113.1/32"), Witness: "no-ts", Detector: "gate a"}}
	for name, c := range map[string]struct {
		at net.Listener
		to config.ReportTo
	}{
		"socket": {socket, config.ReportTo{API: filepath.Join(dir, "api")}},
		"TLS":    {peers, config.ReportTo{API: remote, Identity: filepath.Join(dir, "gate")}},
	} {
		var got []map[string]string
		go answering(c.at, &got)
		v, err := post(context.Background(), c.to, list)
		if err != nil || len(v) != 1 || v[0] != (verdict{"refused", "why"}) {
			t.Errorf("%s: %v %v", name, v, err)
		}
		if len(got) != 1 || got[0]["src"] != "10.1.0.7/32" || got[0]["dst"] != "203.0.113.1/32" || got[0]["witness"] != "no-ts" || got[0]["detector"] != "gate a" {
			t.Errorf("%s: posted %v", name, got)
		}
		if _, err := post(context.Background(), c.to, append(list, list...)); !errors.Is(err, errAnswer) {
			t.Errorf("%s: one verdict for two reports: %v", name, err)
		}
	}
	for name, to := range map[string]config.ReportTo{
		"nobody listens there":   {API: filepath.Join(dir, "not")},
		"a key without rights":   {API: remote, Identity: filepath.Join(dir, "stranger")},
		"another manager's key":  {API: upstream.FormatKey(gate.Public()) + "@" + raw.Addr().String(), Identity: filepath.Join(dir, "gate")},
		"a file that is missing": {API: remote, Identity: filepath.Join(dir, "missing")},
	} {
		if _, err := post(context.Background(), to, list); err == nil {
			t.Error(name + ": no error")
		}
	}
}
