// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/handshake"
)

// However many requests are concurrent, one at a time walks the maps, and once for all of them.
func TestScrapesShareOneReading(t *testing.T) {
	var now, most, readings atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	s := newScrape(func() (Reading, error) {
		readings.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		begun <- struct{}{}
		<-release
		return &Status{Role: "host", Instance: "a"}, nil
	})
	server := httptest.NewServer(s)
	defer server.Close()
	const asking = 4 * scrapesMax
	got := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func() {
		r, err := http.Get(server.URL)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		got[r.StatusCode]++
		if r.StatusCode == http.StatusOK && len(body) == 0 || r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, body %q, header %v", r.StatusCode, body, r.Header)
		}
	}
	wg.Go(ask)
	<-begun
	for range asking - 1 {
		wg.Go(ask)
	}
	for { // the surplus is refused while the first still reads
		mu.Lock()
		refused := got[http.StatusServiceUnavailable]
		mu.Unlock()
		if refused == asking-scrapesMax {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	go func() {
		for range begun { // a second reading would be an error, not a hang
		}
	}()
	wg.Wait()
	if readings.Load() != 1 || most.Load() != 1 || got[http.StatusOK] != scrapesMax {
		t.Errorf("%d readings, %d at once, answers %v", readings.Load(), most.Load(), got)
	}
	s.at = s.at.Add(-scrapeFresh)
	ask()
	if readings.Load() != 2 {
		t.Errorf("%d readings after a second", readings.Load())
	}
	close(begun)
}

// A failure is not retried for every request.
func TestScrapesShareAFailure(t *testing.T) {
	readings := 0
	s := newScrape(func() (Reading, error) { readings++; return nil, errors.New("gone") })
	for range 10 {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, nil)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d", w.Code)
		}
	}
	if readings != 1 {
		t.Errorf("%d readings", readings)
	}
}

// Idle connections do not keep other clients from the port.
func TestScrapeBesideSilentConnections(t *testing.T) {
	s := newScrape(func() (Reading, error) { return &Status{Role: "host", Instance: "a"}, nil })
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = s.connState
	server.Start()
	defer server.Close()
	to := server.Listener.Addr().String()
	for i := range handshake.Max + 50 {
		at, err := net.ResolveTCPAddr("tcp", fmt.Sprintf("127.0.%d.%d:0", 1+i/200, 1+i%200))
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&net.Dialer{LocalAddr: at}).Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	r, err := (&http.Client{Timeout: 10 * time.Second}).Get(server.URL)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	r.Body.Close()
	if n := s.slots.InUse(); n > handshake.Max {
		t.Errorf("%d connections at once", n)
	}
}
