// SPDX-License-Identifier: Apache-2.0

// Package offendertest stands in for a filter manager's API in tests of gates: it
// remembers what is reported and refuses it.
package offendertest

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"

	"tidegate/internal/offender"
)

// Recorder is the API.
type Recorder struct {
	mu   sync.Mutex
	seen []offender.Report
}

// Listen serves at a path until the test ends.
func Listen(t *testing.T, path string) *Recorder {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &Recorder{}
	go func() { _ = http.Serve(l, http.HandlerFunc(r.take)) }()
	return r
}

func (r *Recorder) take(w http.ResponseWriter, q *http.Request) {
	var list []offender.Report
	if json.NewDecoder(q.Body).Decode(&list) != nil || q.Method != http.MethodPost || q.URL.Path != "/v1/filters" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.seen = append(r.seen, list...)
	r.mu.Unlock()
	verdicts := make([]map[string]string, len(list))
	for i := range verdicts {
		verdicts[i] = map[string]string{"state": "refused"}
	}
	_ = json.NewEncoder(w).Encode(verdicts)
}

// Seen gives what was reported so far.
func (r *Recorder) Seen() []offender.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]offender.Report(nil), r.seen...)
}
