// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"tidegate/internal/handshake"
)

// scrape answers requests for metrics. Reading the counters means walking maps, and
// anyone who reaches the port may ask: so one request at a time reads them, once a second at
// most, and all concurrent requests share the answer. It must never hold more requests than
// scrapesMax.
type scrape struct {
	read  func() (Reading, error)
	fixed []prometheus.Collector // of the process
	busy  chan struct{}          // one for each request that is being answered

	mu   sync.Mutex
	at   time.Time // of what follows; zero: nothing was read yet
	body []byte
	err  error

	slots *handshake.Slots // of connections
	conns sync.Map         // net.Conn to the func that gives its slot back
}

const (
	scrapesMax  = 16          // concurrent requests; more are told to retry
	scrapeFresh = time.Second // how long an answer is reused
	headerMax   = 8 << 10     // bytes of a request
)

func newScrape(read func() (Reading, error), fixed ...prometheus.Collector) *scrape {
	return &scrape{read: read, fixed: fixed, busy: make(chan struct{}, scrapesMax), slots: handshake.New()}
}

// text returns the current metrics, or those of a moment ago.
func (s *scrape) text() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < scrapeFresh {
		return s.body, s.err
	}
	s.body, s.err = s.fresh()
	s.at = time.Now() // a failure costs as much as a success
	return s.body, s.err
}

// textFormat is what every version of Prometheus reads.
var textFormat = expfmt.NewFormat(expfmt.TypeTextPlain)

// fresh reads the instance and formats the reading for Prometheus.
func (s *scrape) fresh() ([]byte, error) {
	reading, err := s.read()
	if err != nil {
		return nil, err
	}
	all := prometheus.NewRegistry()
	all.MustRegister(once{reading})
	if st, ok := reading.(*Status); ok && st.DPDK != nil {
		all.MustRegister(dpdkProcess(st.DPDKPrefix))
	}
	for _, c := range s.fixed {
		all.MustRegister(c)
	}
	families, err := all.Gather()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := expfmt.NewEncoder(&out, textFormat)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func (s *scrape) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once; ask again in a second", http.StatusServiceUnavailable)
		return
	}
	body, err := s.text()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", string(textFormat))
	_, _ = w.Write(body) // the client may have gone
}

// connState bounds the connections, and those of one network.
func (s *scrape) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if leave, ok := s.slots.Enter(c); ok {
			s.conns.Store(c, leave)
		} else {
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if leave, ok := s.conns.LoadAndDelete(c); ok {
			leave.(func())()
		}
	}
}
