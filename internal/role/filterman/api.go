// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"
)

// The API: JSON over HTTP on a UNIX socket that only its owner may open, and, for detectors on other machines, by mutual
// TLS (detectors.go).
//
//	POST   /v1/filters              a Request, or a list of them; ?wait=1: until answered
//	GET    /v1/filters              a list of Entries
//	DELETE /v1/filters?src=&dst=    takes one back
//
// answered requests have a Verdict each.

// Verdict is the result of one request.
type Verdict struct {
	Src   netip.Prefix `json:"src"`
	Dst   netip.Prefix `json:"dst"`
	State State        `json:"state"`
	Error string       `json:"error,omitempty"`
}

// Bounds of one request. Anything beyond is refused with status 413.
const (
	APIBodyMax  = 32 << 20
	APIListMax  = 1 << 18
	apiWaitMax  = 20 * time.Second
	readTimeout = 30 * time.Second
)

// ServeAPI serves the API at a path until the listener is closed.
func ServeAPI(m *Manager, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another filter manager serves there; stop it, or set another `api:`", path)
	}
	_ = os.Remove(path) // left by a killed process
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &http.Server{Handler: apiFor(m, func(http.ResponseWriter, *http.Request) (*detector, bool) { return nil, true }), ReadTimeout: readTimeout}
	go func() { _ = s.Serve(l) }()
	return l, nil
}

// apiFor is the API for callers that who identifies: nil is this machine's owner. If who returns false, it has answered.
func apiFor(m *Manager, who func(http.ResponseWriter, *http.Request) (*detector, bool)) http.Handler {
	mux := http.NewServeMux()
	handle := func(method string, call func(*Manager, *detector, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(method+" /v1/filters", func(w http.ResponseWriter, r *http.Request) {
			if by, ok := who(w, r); ok {
				call(m, by, w, r)
			}
		})
	}
	handle("POST", apiAdd)
	handle("GET", apiList)
	handle("DELETE", apiRemove)
	return mux
}

func apiError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

func apiAnswer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// errTooMuch is a request beyond the bounds; all other errors of readRequests mean
// that it cannot be read.
var errTooMuch = errors.New("too much at once")

// readRequests reads one object or a list, item by item, so that a refused body has
// cost no more than the bounds.
func readRequests(w http.ResponseWriter, r *http.Request, limit int64) (list []Request, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return nil, fmt.Errorf("%w: more than %d MiB; send the list in parts", errTooMuch, limit>>20)
	}
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	d := json.NewDecoder(bytes.NewReader(body))
	if len(body) > 0 && body[0] == '{' {
		list = make([]Request, 1)
		err = d.Decode(&list[0])
		return list, errors.Join(notJSON(err), ended(d, err))
	}
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, notJSON(errors.Join(err, errors.New("want a filter or a list of them")))
	}
	for d.More() {
		if len(list) == APIListMax {
			return nil, fmt.Errorf("%w: more than %d filters; send at most so many at once", errTooMuch, APIListMax)
		}
		var one Request
		if err := d.Decode(&one); err != nil {
			return nil, notJSON(err)
		}
		list = append(list, one)
	}
	_, err = d.Token()
	return list, errors.Join(notJSON(err), ended(d, err))
}

func notJSON(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("not JSON of filters: %w", err)
}

// ended checks that nothing follows the body's one value, unless there was
// an error before.
func ended(d *json.Decoder, before error) error {
	if before != nil {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("more than one object or list; send one"), err)
	}
	return nil
}

// gathered collects the verdicts of one POST as they come in. Its own lock
// is never held during a send: the engine's goroutine, which delivers the
// answers, would wait for the lock, and the send waits for the engine. Who holds it calls nothing of the manager, whose
// lock is held when answers are delivered.
type gathered struct {
	mu      sync.Mutex
	answers map[entryKey]Verdict
	left    int // answers still expected, plus one until everything is sent
	all     chan struct{}
}

func (g *gathered) take(e *Entry, err error) {
	v := Verdict{Src: e.Src, Dst: e.Dst, State: e.State}
	if err != nil {
		v.Error = err.Error()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[keyOf(e.Src, e.Dst)] = v
	g.expect(-1)
}

// expect changes the number of expected answers. Call it locked.
func (g *gathered) expect(n int) {
	if g.left += n; g.left == 0 {
		close(g.all)
	}
}

func apiAdd(m *Manager, by *detector, w http.ResponseWriter, r *http.Request) {
	limit := int64(APIBodyMax)
	if by != nil {
		limit = detectorBodyMax
	}
	list, err := readRequests(w, r, limit)
	if errors.Is(err, errTooMuch) {
		apiError(w, http.StatusRequestEntityTooLarge, err)
		return
	}
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	for i := range list { // the zero value would make Masked() mislead
		if !list[i].Src.IsValid() || !list[i].Dst.IsValid() {
			apiError(w, http.StatusBadRequest, fmt.Errorf("filter %d: src and dst must be prefixes such as 192.0.2.1/32", i))
			return
		}
	}
	var g *gathered
	var done func(*Entry, error)
	if r.URL.Query().Get("wait") != "" {
		g = &gathered{answers: make(map[entryKey]Verdict, len(list)), left: len(list) + 1, all: make(chan struct{})}
		done = g.take
	}
	verdicts := make([]Verdict, len(list))
	refused := 0
	for i, err := range m.addAll(by, list, done) {
		verdicts[i] = Verdict{Src: list[i].Src, Dst: list[i].Dst, State: Asked}
		if err != nil {
			verdicts[i].State, verdicts[i].Error = Refused, err.Error()
			refused++
		}
	}
	if g != nil && !g.wait(r, refused, verdicts) {
		return // the client has gone
	}
	apiAnswer(w, verdicts)
}

// wait fills in the verdicts when all have arrived or the time is over; false if
// the client has gone. refused is how many will get no answer.
func (g *gathered) wait(r *http.Request, refused int, verdicts []Verdict) bool {
	g.mu.Lock()
	g.expect(-1 - refused)
	g.mu.Unlock()
	select {
	case <-g.all:
	case <-time.After(apiWaitMax):
	case <-r.Context().Done():
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range verdicts {
		if v, ok := g.answers[keyOf(verdicts[i].Src, verdicts[i].Dst)]; ok && verdicts[i].State == Asked {
			verdicts[i] = v
		}
	}
	return true
}

func apiList(m *Manager, by *detector, w http.ResponseWriter, _ *http.Request) {
	list := m.listOf(by)
	sort.Slice(list, func(i, j int) bool {
		if c := list[i].Dst.Addr().Compare(list[j].Dst.Addr()); c != 0 {
			return c < 0
		}
		return list[i].Src.Addr().Less(list[j].Src.Addr())
	})
	apiAnswer(w, list)
}

func apiRemove(m *Manager, by *detector, w http.ResponseWriter, r *http.Request) {
	src, errA := netip.ParsePrefix(r.URL.Query().Get("src"))
	dst, errB := netip.ParsePrefix(r.URL.Query().Get("dst"))
	if err := errors.Join(errA, errB); err != nil {
		apiError(w, http.StatusBadRequest, errors.New("src and dst must be prefixes such as 192.0.2.1/32"))
		return
	}
	done := make(chan error, 1)
	if err := m.remove(by, src, dst, func(_ Entry, err error) { done <- err }); err != nil {
		apiError(w, http.StatusNotFound, err)
		return
	}
	select {
	case err := <-done:
		if err != nil {
			apiError(w, http.StatusBadGateway, err)
			return
		}
	case <-time.After(apiWaitMax):
		apiError(w, http.StatusGatewayTimeout, ErrNoAnswer)
		return
	}
	apiAnswer(w, map[string]string{"state": "removed"})
}
