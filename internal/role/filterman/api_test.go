// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/role/filterman"
	"tidegate/internal/upstreamtest"
)

// apiClient serves a manager's API and returns a client for it.
func apiClient(t *testing.T, m *filterman.Manager) *http.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api.sock")
	l, err := filterman.ServeAPI(m, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
}

func post(t *testing.T, c *http.Client, query string, body io.Reader) (int, []byte) {
	t.Helper()
	r, err := c.Post("http://api/v1/filters"+query, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, b
}

// A POST of far more messages than may be under way at once is answered as a whole,
// and others are answered meanwhile.
func TestManyMessagesAtOnce(t *testing.T) {
	const count = 20_000
	n, err := upstreamtest.New(upstreamtest.Options{Prefixes: customers, Own: own, Capacity: 2 * count, Rate: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	m := filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: own, Expires: time.Minute,
		Idle: time.Hour, Log: n.Log, PerMessage: 1})
	client := apiClient(t, m)
	var list []filterman.Request
	for i := range count {
		list = append(list, filterman.Request{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32),
			Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS})
	}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		status int
		body   []byte
	}
	done := make(chan answer, 1)
	go func() {
		status, b := post(t, client, "?wait=1", bytes.NewReader(body))
		done <- answer{status, b}
	}()
	gets := 0
	for {
		r, err := client.Get("http://api/v1/filters")
		if err != nil {
			t.Fatal("a list beside the POST:", err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		gets++
		select {
		case a := <-done:
			var verdicts []filterman.Verdict
			if err := json.Unmarshal(a.body, &verdicts); err != nil || a.status != http.StatusOK || len(verdicts) != count {
				t.Fatalf("status %d, %d verdicts, %v: %.300s", a.status, len(verdicts), err, a.body)
			}
			for i := range verdicts {
				if verdicts[i].State != filterman.Installed || verdicts[i].Src != list[i].Src {
					t.Fatalf("filter %d of %d: %+v", i, count, verdicts[i])
				}
			}
			if n.Tables[0].Len() != count {
				t.Errorf("%d filters at the patrol", n.Tables[0].Len())
			}
			t.Logf("%d lists were answered meanwhile", gets)
			return
		default:
		}
	}
}

// The same filter twice, a refused one, a lone object: each gets its own verdict.
func TestAPIVerdicts(t *testing.T) {
	n := start(t, 0)
	client := apiClient(t, newManager(n))
	const good = `{"src":"10.1.0.1/32","dst":"198.51.100.1/32","witness":"ts"}`
	const forged = `{"src":"10.1.0.2/32","dst":"198.51.100.1/32","witness":"no-ts"}`
	status, body := post(t, client, "?wait=1", strings.NewReader("["+good+","+forged+","+good+"]"))
	var v []filterman.Verdict
	if err := json.Unmarshal(body, &v); err != nil || status != http.StatusOK || len(v) != 3 ||
		v[0].State != filterman.Installed || v[1].State != filterman.Refused || v[2].State != filterman.Installed {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body = post(t, client, "?wait=1", strings.NewReader(forged)); status != http.StatusOK || !strings.Contains(string(body), "refused") {
		t.Errorf("nothing to wait for: status %d: %s", status, body)
	}
	if status, body = post(t, client, "?wait=1", strings.NewReader("[]")); status != http.StatusOK {
		t.Errorf("an empty list: status %d: %s", status, body)
	}
}

// Oversized requests are refused as such, before any filter is requested.
func TestAPIBounds(t *testing.T) {
	n := start(t, 0)
	client := apiClient(t, newManager(n))
	const one = `{"src":"10.1.0.1/32","dst":"198.51.100.1/32","witness":"ts"}`
	for name, c := range map[string]struct {
		body io.Reader
		want int
		says string
	}{
		"too many filters": {strings.NewReader("[" + strings.Repeat(`{"dst":"198.51.100.1/32"},`, filterman.APIListMax) + one + "]"), http.StatusRequestEntityTooLarge, "send at most"},
		"too many bytes":   {io.MultiReader(strings.NewReader("["), io.LimitReader(spaces{}, filterman.APIBodyMax), strings.NewReader("]")), http.StatusRequestEntityTooLarge, "MiB"},
		"not JSON":         {strings.NewReader("[{"), http.StatusBadRequest, "not JSON"},
		"not a filter":     {strings.NewReader(`[{"src":"10.1.0.1"}]`), http.StatusBadRequest, ""},
		"no destination":   {strings.NewReader(`[{"src":"10.1.0.1/32"}]`), http.StatusBadRequest, "must be prefixes"},
		"two lists":        {strings.NewReader(`[` + one + `] [` + one + `]`), http.StatusBadRequest, "one"},
	} {
		if status, body := post(t, client, "", c.body); status != c.want || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: status %d, want %d: %.300s", name, status, c.want, body)
		}
	}
	if n.Engine.Sent.Load() != 0 {
		t.Error("something was asked for all the same")
	}
}

// spaces is an endless run of white space.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// A caller waiting for room returns when the engine is closed.
func TestCloseWhileWaiting(t *testing.T) {
	n := start(t, 0)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	to := n.BM
	to.Addr = silent.LocalAddr().(*net.UDPAddr).AddrPort()
	const jobs = 10_000
	outcomes := make(chan filterman.Outcome, jobs)
	list := make([]filterman.Job, jobs)
	for i := range list {
		list[i] = filterman.Job{BM: to, Done: func(o filterman.Outcome) { outcomes <- o }}
		list[i].Kind, list[i].Filters = 1, append(list[i].Filters, pair("10.1.0.7/32", "198.51.100.1/32"))
	}
	returned := make(chan struct{})
	go func() { n.Engine.Do(list...); close(returned) }()
	for deadline := time.Now().Add(10 * time.Second); n.Engine.Sent.Load() < 8192; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d were sent", n.Engine.Sent.Load())
		}
	}
	n.Engine.Close()
	limit := time.After(10 * time.Second)
	for i := range jobs {
		select {
		case o := <-outcomes:
			if o.Err == nil {
				t.Fatalf("job %d: %+v", i, o)
			}
		case <-limit:
			t.Fatalf("%d of %d jobs were never ended", jobs-i, jobs)
		}
	}
	<-returned
}
