// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"
)

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
			t.Errorf("%q is accepted", bad)
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
