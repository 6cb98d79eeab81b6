package filterman

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"
)

// The local API: JSON over HTTP on a UNIX socket that only its owner may open.
//
//	POST   /v1/filters              a Request, or a list of them; ?wait=1: until answered
//	GET    /v1/filters              a list of Entries
//	DELETE /v1/filters?src=&dst=    takes one back
//
// answered requests have a Verdict each.

// Verdict says what became of one request.
type Verdict struct {
	Src   netip.Prefix `json:"src"`
	Dst   netip.Prefix `json:"dst"`
	State State        `json:"state"`
	Error string       `json:"error,omitempty"`
}

const (
	apiBodyMax  = 64 << 20
	apiWaitMax  = 20 * time.Second
	apiListMax  = 1 << 20
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
	_ = os.Remove(path) // of one that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/filters", func(w http.ResponseWriter, r *http.Request) { apiAdd(m, w, r) })
	mux.HandleFunc("GET /v1/filters", func(w http.ResponseWriter, _ *http.Request) { apiList(m, w) })
	mux.HandleFunc("DELETE /v1/filters", func(w http.ResponseWriter, r *http.Request) { apiRemove(m, w, r) })
	s := &http.Server{Handler: mux, ReadTimeout: readTimeout}
	go func() { _ = s.Serve(l) }()
	return l, nil
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

// readRequests takes one object or a list.
func readRequests(r *http.Request) ([]Request, error) {
	var raw json.RawMessage
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, apiBodyMax))
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	var list []Request
	if len(raw) > 0 && raw[0] == '{' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if len(list) > apiListMax {
		return nil, fmt.Errorf("%d filters at once are too many; send at most %d", len(list), apiListMax)
	}
	return list, nil
}

func apiAdd(m *Manager, w http.ResponseWriter, r *http.Request) {
	list, err := readRequests(r)
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
	var mu sync.Mutex
	answers := map[[2]netip.Prefix]Verdict{}
	left, all := 0, make(chan struct{}, 1)
	verdicts := make([]Verdict, len(list))
	mu.Lock()
	for i, err := range m.AddAll(list, func(e Entry, err error) {
		mu.Lock()
		defer mu.Unlock()
		v := Verdict{Src: e.Src, Dst: e.Dst, State: e.State}
		if err != nil {
			v.Error = err.Error()
		}
		answers[[2]netip.Prefix{e.Src, e.Dst}] = v
		if left--; left == 0 {
			all <- struct{}{}
		}
	}) {
		verdicts[i] = Verdict{Src: list[i].Src, Dst: list[i].Dst, State: Asked}
		if err != nil {
			verdicts[i].State, verdicts[i].Error = Refused, err.Error()
			continue
		}
		left++
	}
	waiting := left > 0
	mu.Unlock()
	if r.URL.Query().Get("wait") != "" && waiting {
		select {
		case <-all:
		case <-time.After(apiWaitMax):
		case <-r.Context().Done():
			return
		}
		mu.Lock()
		for i := range verdicts {
			if v, ok := answers[[2]netip.Prefix{verdicts[i].Src, verdicts[i].Dst}]; ok && verdicts[i].State == Asked {
				verdicts[i] = v
			}
		}
		mu.Unlock()
	}
	apiAnswer(w, verdicts)
}

func apiList(m *Manager, w http.ResponseWriter) {
	list := m.List()
	sort.Slice(list, func(i, j int) bool {
		if c := list[i].Dst.Addr().Compare(list[j].Dst.Addr()); c != 0 {
			return c < 0
		}
		return list[i].Src.Addr().Less(list[j].Src.Addr())
	})
	apiAnswer(w, list)
}

func apiRemove(m *Manager, w http.ResponseWriter, r *http.Request) {
	src, errA := netip.ParsePrefix(r.URL.Query().Get("src"))
	dst, errB := netip.ParsePrefix(r.URL.Query().Get("dst"))
	if err := errors.Join(errA, errB); err != nil {
		apiError(w, http.StatusBadRequest, errors.New("src and dst must be prefixes such as 192.0.2.1/32"))
		return
	}
	done := make(chan error, 1)
	if err := m.Remove(src, dst, func(_ Entry, err error) { done <- err }); err != nil {
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
