// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// The group may use the API, but captures are for root and the daemon's user.
func TestCaptureIsNotForTheGroup(t *testing.T) {
	_, s, _ := serve(t)
	for uid, want := range map[uint32]int{uint32(os.Geteuid()) + 12345: http.StatusForbidden, uint32(os.Geteuid()): http.StatusBadRequest} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/v1/capture?port=0", nil)
		s.capture(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, uid)))
		if w.Code != want {
			t.Errorf("user %d: %d %s, want %d", uid, w.Code, w.Body, want)
		}
	}
	w := httptest.NewRecorder()
	s.capture(w, httptest.NewRequest(http.MethodGet, "/v1/capture", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("nobody knows who: %d", w.Code)
	}
}

func TestCaptureQuestion(t *testing.T) {
	q, _ := url.ParseQuery("reason=drop&reason=cookie_sent&reason=tx&net=192.0.2.7&port=443&sample=10&count=5&duration=90s")
	o, d, err := captureQuestion(q)
	want := plane.CaptureOptions{Reasons: []schema.Counter{schema.CounterCookieSent}, Verdicts: []string{"drop", "tx"}, Net: netip.MustParsePrefix("192.0.2.7/32"), Port: 443, Sample: 10, Count: 5}
	if err != nil || d != 90*time.Second || !reflect.DeepEqual(o, want) {
		t.Errorf("%v: %+v for %s, want %+v", err, o, d, want)
	}
	if o, d, err := captureQuestion(nil); err != nil || o.Count != captureCount || o.Sample != 1 || d != captureDuration {
		t.Errorf("of nothing: %v: %+v for %s", err, o, d)
	}
	for bad, why := range map[string]string{
		"reason=x": "neither a counter", "net=x": "want ADDRESS", "port=65536": "1 to 65535", "port=-1": "1 to 65535", "sample=0": "1 to", "count=1000001": "1 to 1000000",
		"duration=61m": "to 1h", "duration=0s": "to 1h", "nonsense=1": "not known",
	} {
		q, _ := url.ParseQuery(bad)
		if _, _, err := captureQuestion(q); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
