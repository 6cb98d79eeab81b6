// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

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

// endless is a capture with some packets that wait to be read, and then one whenever it is asked, if it never ends.
type endless struct {
	waiting []plane.Captured
	never   bool
	reads   int
	each    func()
}

func (e *endless) Read(until time.Time) (plane.Captured, error) {
	e.reads++
	if e.each != nil {
		e.each()
	}
	if len(e.waiting) > 0 {
		p := e.waiting[0]
		e.waiting = e.waiting[1:]
		return p, nil
	}
	if e.never {
		return plane.Captured{Frame: make([]byte, 60), Hook: "xdp", Time: time.Now()}, nil
	}
	return plane.Captured{}, os.ErrDeadlineExceeded
}
func (e *endless) Renew() error             { return nil }
func (e *endless) Missed() (uint64, uint64) { return 0, 0 }
func (e *endless) Stop() error              { return nil }

// What had been captured when a capture is ended is in the file, which ends where a packet does, even if packets never stop coming.
func TestCaptureEndsWhole(t *testing.T) {
	_, s, _ := serve(t)
	for name, c := range map[string]*endless{"what waits": {}, "packets that never stop": {never: true}} {
		for range 10 {
			c.waiting = append(c.waiting, plane.Captured{Frame: make([]byte, 60), Hook: "xdp", Time: time.Now()})
		}
		ctx, cancel := context.WithCancel(context.Background())
		number := strconv.FormatUint(s.captures.begin(cancel), 10)
		c.each = func() {
			if c.reads == 3 && (s.captures.endOf(number+"0") || !s.captures.endOf(number)) {
				t.Errorf("%s: the capture of a number is not the one under way", name)
			}
		}
		w := httptest.NewRecorder()
		n, err := s.stream(ctx, w, http.NewResponseController(deadlines{w}), c, captureCount)
		s.captures.over()
		if err != nil || n != 10 {
			t.Errorf("%s: %v: %d packets, want 10", name, err, n)
		}
		if s.captures.endOf(number) {
			t.Errorf("%s: it ends twice", name)
		}
		r, err := pcapgo.NewNgReader(w.Body, pcapgo.NgReaderOptions{})
		read := 0
		for err == nil {
			if _, _, err = r.ReadPacketData(); err == nil {
				read++
			}
		}
		if !errors.Is(err, io.EOF) || read != n {
			t.Errorf("%s: the file has %d packets, and then: %v", name, read, err)
		}
	}
}

// deadlines takes them, as a connection does.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// Who may not capture may not end a capture, and no other capture is ended than that of the number.
func TestEndCapture(t *testing.T) {
	_, s, _ := serve(t)
	ended := false
	s.captures.begin(func() { ended = true })
	for _, ask := range []struct {
		number string
		uid    uint32
		want   int
	}{{"1", uint32(os.Geteuid()) + 12345, http.StatusForbidden}, {"2", uint32(os.Geteuid()), http.StatusConflict}, {"1", uint32(os.Geteuid()), http.StatusNoContent}} {
		if ended {
			t.Fatalf("ended before %v", ask)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodDelete, "/v1/capture/"+ask.number, nil)
		r.SetPathValue("number", ask.number)
		s.endCapture(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, ask.uid)))
		if w.Code != ask.want {
			t.Errorf("%v: %d %s", ask, w.Code, w.Body)
		}
	}
	if !ended {
		t.Error("it goes on")
	}
}
