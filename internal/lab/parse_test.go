// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestOwnerNames(t *testing.T) {
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !me.alive() {
		t.Error("this process counts as dead")
	}
	if (Owner{me.pid, me.startTicks + 1}).alive() {
		t.Error("a reused pid counts as alive")
	}
	if (Owner{1 << 30, 1}).alive() {
		t.Error("a pid that cannot exist counts as alive")
	}
	got, rest, ok := parseOwner(me.String() + "-server")
	if !ok || got != me || rest != "server" {
		t.Errorf("parseOwner: %v %q %v", got, rest, ok)
	}
	for _, bad := range []string{"", "x", "12", "0-5", "-3-5", "12-x", "a-1-server", "dev-12-3"} {
		if _, _, ok := parseOwner(bad); ok {
			t.Errorf("parseOwner(%q) succeeded", bad)
		}
	}
}

func TestNamesOfDeadTakesOnlyOurForm(t *testing.T) {
	dir := t.TempDir()
	me, _ := Self()
	dead := Owner{1 << 30, 1}
	for _, name := range []string{
		"tg-" + dead.String() + "-server", "tg-" + me.String() + "-server", "tg-" + dead.String() + ".json",
		"tg-lab-server", "tg-", "other", "cni-1073741824-1-server",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"tg-" + dead.String() + "-server", "tg-" + dead.String() + ".json"}
	if got := namesOfDead(dir, nsPrefix); !reflect.DeepEqual(got, want) {
		t.Errorf("namesOfDead = %q, want %q", got, want)
	}
}

func TestParseTCPExt(t *testing.T) {
	const text = "TcpExt: SyncookiesSent SyncookiesRecv\nTcpExt: 12 34\nIpExt: A\nIpExt: 1\n"
	if v, err := parseTCPExt(text, "SyncookiesRecv"); err != nil || v != 34 {
		t.Errorf("got %d, %v", v, err)
	}
	if _, err := parseTCPExt(text, "Nothing"); err == nil {
		t.Error("a missing counter is no error")
	}
}

func TestParseSynproxy(t *testing.T) {
	const text = "entries\t\tsyn_received\tcookie_invalid\n00000000\t0000000a\t00000000\n00000000\t00000010\t00000001\n"
	if v, err := parseSynproxy(text); err != nil || v != 26 {
		t.Errorf("got %d, %v; want 26", v, err)
	}
	if _, err := parseSynproxy("entries other\n"); err == nil {
		t.Error("a missing column is no error")
	}
}

func TestParseWindowScale(t *testing.T) {
	for _, c := range []struct {
		tcp, core string
		want      int
	}{
		{"4096\t131072\t6291456\n", "212992\n", 7}, {"4096 131072 33554432", "4194304", 10},
		{"4096 8192 16384", "65535", 0}, {"4096 8192 65535", "8589934592", 14},
	} {
		if got, err := parseWindowScale(c.tcp, c.core); err != nil || got != c.want {
			t.Errorf("%q, %q: %d, %v; want %d", c.tcp, c.core, got, err, c.want)
		}
	}
	if _, err := parseWindowScale("x", "y"); err == nil {
		t.Error("nonsense is accepted")
	}
}

func TestResponse(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello"
	for cut := range len(ok) {
		var r response
		first, err1 := r.add([]byte(ok[:cut]))
		second, err2 := r.add([]byte(ok[cut:]))
		if err1 != nil || err2 != nil || first || !second {
			t.Fatalf("cut at %d: %v %v, %v %v", cut, first, err1, second, err2)
		}
	}
	for _, bad := range []string{
		"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		ok + "x",
	} {
		var r response
		if _, err := r.add([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestQuantiles(t *testing.T) {
	h := newTimes()
	for i := 1; i <= 1000; i++ {
		recordTime(h, time.Duration(i)*time.Millisecond)
	}
	q := quantiles(h)
	for name, pair := range map[string][2]float64{"p50": {q.P50, 500}, "p90": {q.P90, 900}, "p99": {q.P99, 990}, "p999": {q.P999, 999}} {
		if pair[0] < pair[1]*0.998 || pair[0] > pair[1]*1.002 {
			t.Errorf("%s = %g ms, want %g to three digits", name, pair[0], pair[1])
		}
	}
	recordTime(h, -time.Second)
	recordTime(h, time.Hour) // clamped, not lost
	if h.TotalCount() != 1002 {
		t.Errorf("%d values kept, want 1002", h.TotalCount())
	}
}

func TestChoosePinning(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want Pinning
	}{
		{nil, Pinning{-1, -1, -1}}, {[]int{4}, Pinning{4, 4, 4}},
		{[]int{0, 1}, Pinning{0, 1, 1}}, {[]int{2, 5, 7, 8}, Pinning{2, 5, 7}},
	} {
		if got := choosePinning(c.cpus); got != c.want {
			t.Errorf("choosePinning(%v) = %v, want %v", c.cpus, got, c.want)
		}
	}
}

func TestLineWaiter(t *testing.T) {
	w := NewLineWaiter("ready")
	for _, part := range []string{"not re", "ady\nre", "ady"} {
		_, _ = w.Write([]byte(part))
		select {
		case <-w.Seen:
			t.Fatalf("seen too early, after %q", part)
		default:
		}
	}
	_, _ = w.Write([]byte("\nmore\n"))
	select {
	case <-w.Seen:
	default:
		t.Error("the line was not seen")
	}
}

func TestClientAddressesAreDistinctAndInside(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		seen := map[string]bool{}
		for _, a := range clientSources(maxClients, v6) {
			if seen[a.String()] || !(clients4.Contains(a) || clients6.Contains(a)) {
				t.Fatalf("client address %s", a)
			}
			seen[a.String()] = true
		}
	}
}

func TestDisturbedLoadIsVoid(t *testing.T) {
	if err := checkDisturbed(loadResult{LagMax: 900}, 2*time.Second, 1); err != nil {
		t.Errorf("900 ms late, timeout 2 s: %v", err)
	}
	if err := checkDisturbed(loadResult{LagMax: 1100}, 2*time.Second, 1); !errors.Is(err, ErrDisturbed) {
		t.Errorf("1.1 s late, timeout 2 s: %v, want ErrDisturbed", err)
	}
}

func TestValidateNamesTheOption(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"defence": func(o *Options) { o.Defence = "x" }, "clients": func(o *Options) { o.Clients = 0 },
		"load": func(o *Options) { o.Load = 0 }, "duration": func(o *Options) { o.Duration = -1 },
		"timeout": func(o *Options) { o.Timeout = 0 }, "requests": func(o *Options) { o.Requests = -1 },
		"ports": func(o *Options) { o.Ports = 70000 }, "size": func(o *Options) { o.ResponseSize = -1 },
		"server": func(o *Options) { o.Server = "apache" },
	} {
		o := DefaultOptions()
		change(&o)
		if o.Validate() == nil {
			t.Errorf("a bad %s is accepted", name)
		}
	}
}
