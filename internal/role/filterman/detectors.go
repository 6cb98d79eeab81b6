// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/config"
	"tidegate/internal/upstream"
)

// Detectors on other machines reach the API by mutual TLS. Any of them may be compromised, so each has a quota and a rate, and
// sees and removes only its own filters. All that a stolen key is good for is what that detector could do, until a reload
// without the key.

// Detector is a detector on another machine.
type Detector struct {
	Name    string
	Key     ed25519.PublicKey
	Filters int // that it may have at once
}

// detector is a Detector and what it may do now.
type detector struct {
	Detector
	rate *rate.Limiter
}

// Rate of one detector, in filters at one border manager each; other calls cost lookCost. If every one of its requests goes
// to a border manager that does not answer, it still cannot fill the engine (outstandingMax).
const (
	detectorRate  = 250
	detectorBurst = 2048
	lookCost      = 25
)

// Bounds of connections of detectors.
const (
	detectorConns   = 8
	detectorBodyMax = 4 << 20
	detectorHeader  = 16 << 10
	detectorIdle    = 30 * time.Second
)

// Reasons to refuse a detector.
var (
	ErrOthers = errors.New("another detector has requested this filter; nothing is to be done while that is in force")
	ErrQuota  = errors.New("this detector has as many filters as it may; see `filters` of `detectors`")
	ErrRate   = errors.New("this detector requests too much; request again later, and less at once")
	errKey    = errors.New("the key is no longer one of `detectors`")
)

// remote begins the names under which the filters of such detectors are listed.
const remote = "tls:"

// owner is how the detector's filters are marked.
func (d *detector) owner() string { return remote + d.Name }

// SetDetectors replaces the detectors that may connect. One whose key stays keeps what it has used of its rate; connections
// of others are refused from their next request on, and their filters stay until they expire.
func (m *Manager) SetDetectors(list []Detector) {
	old, next := m.detectors.Load(), map[string]*detector{}
	for _, d := range list {
		n := &detector{Detector: d, rate: rate.NewLimiter(detectorRate, detectorBurst)}
		if old != nil {
			if had := (*old)[string(d.Key)]; had != nil {
				n.rate = had.rate
			}
		}
		next[string(d.Key)] = n
	}
	m.detectors.Store(&next)
}

// detector is that of a key; nil: none.
func (m *Manager) detector(key ed25519.PublicKey) *detector {
	if list := m.detectors.Load(); list != nil {
		return (*list)[string(key)]
	}
	return nil
}

// mayAdd reports why a detector may not add a filter; it charges quota and rate. old is the filter in the list with that source
// and destination, if any. m.mu is held.
func (m *Manager) mayAdd(d *detector, e, old *Entry, now time.Time) error {
	n := e.siteCount()
	have := m.held[d.owner()]
	if old != nil && old.Detector == d.owner() {
		have -= old.siteCount()
	} else if old != nil && old.State != Refused {
		return ErrOthers
	}
	switch {
	case have+n > d.Filters:
		return ErrQuota
	case !d.rate.AllowN(now, n):
		return ErrRate
	}
	return nil
}

// detectorsOf are the detectors of a configuration.
func detectorsOf(f *config.Filter) (list []Detector, err error) {
	for _, d := range f.Detectors {
		key, err := upstream.ParseKey(d.Key)
		if err != nil {
			return nil, err
		}
		list = append(list, Detector{Name: d.Name, Key: key, Filters: d.Filters})
	}
	return list, nil
}

// serveRemote serves the detectors of a configuration.
func serveRemote(m *Manager, f *config.Filter, logger *slog.Logger) (net.Listener, error) {
	list, err := detectorsOf(f)
	if err != nil {
		return nil, err
	}
	m.SetDetectors(list)
	id, err := upstream.LoadIdentity(f.Identity)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(f.APIListen))
	if err != nil {
		return nil, fmt.Errorf("api_listen: %w", err)
	}
	return ServeDetectors(m, id, l, logger)
}

// keyOfConn is the context key under which a request has its detector's public key.
type keyOfConn struct{}

// ServeDetectors serves the API to the detectors of SetDetectors until the returned listener is closed.
func ServeDetectors(m *Manager, id *upstream.Identity, l net.Listener, logger *slog.Logger) (net.Listener, error) {
	config, err := id.TLSWith(func(key ed25519.PublicKey) bool { return m.detector(key) != nil })
	if err != nil {
		return nil, err
	}
	peers := upstream.ListenPeers(l, config, detectorConns, logger)
	s := &http.Server{Handler: apiFor(m, func(w http.ResponseWriter, r *http.Request) (*detector, bool) {
		key, _ := r.Context().Value(keyOfConn{}).(ed25519.PublicKey)
		d := m.detector(key)
		switch {
		case d == nil:
			apiError(w, http.StatusForbidden, errKey)
			return nil, false
		case r.Method != http.MethodPost && !d.rate.AllowN(time.Now(), lookCost):
			apiError(w, http.StatusTooManyRequests, ErrRate)
			return nil, false
		}
		return d, true
	}), ReadTimeout: readTimeout, IdleTimeout: detectorIdle, MaxHeaderBytes: detectorHeader, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, keyOfConn{}, c.(*upstream.PeerConn).Key())
		}}
	go func() { _ = s.Serve(peers) }()
	return closesServer{peers, s}, nil
}

// closesServer closes the connections, too.
type closesServer struct {
	net.Listener
	server *http.Server
}

func (c closesServer) Close() error {
	return errors.Join(c.server.Close(), ignoreClosed(c.Listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
