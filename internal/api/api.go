// SPDX-License-Identifier: Apache-2.0

// Package api is the local API of a running instance: HTTP on a UNIX socket. A slow client must never
// delay anything else, and no request may use more of the machine than the bounds allow.
package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/instance"
	"tidegate/internal/status"
)

// Bounds. What is beyond them is refused.
const (
	bodyMax     = 64 << 10
	headerMax   = 16 << 10
	connMax     = 64 // at once
	connUserMax = 16 // of one user other than root
	followMax   = 16 // of the connections, those that follow events

	reloadTime  = 60 * time.Second
	statusFresh = time.Second // how long a status is reused
)

var (
	requestTime = 15 * time.Second
	lineTime    = 5 * time.Second // for a follower to read what is pending
)

// ReadAt is the header of an answer to /v1/status that says when the packet path was read, in nanoseconds since 1970: requests
// within one second get the same reading.
const ReadAt = "Tidegate-Read-At"

// Group may use the API, if the machine has it; else only the daemon's own user and root.
const Group = "tidegate"

var lookupGroup = user.LookupGroup // a test machine need not have it

//go:embed openapi.yaml
var openAPI []byte

// Instance is what the API needs of the daemon.
type Instance interface {
	Config() *config.Config                       // the one in force
	Reload(ctx context.Context) ([]string, error) // reloads the configuration; returns what has changed
	Events() *event.Stream
	Routers() Routers // nil: the configuration has no `bgp`
}

// Server serves it.
type Server struct {
	opt  instance.Options
	of   Instance
	name string
	log  *slog.Logger
	http http.Server
	file os.FileInfo // the socket

	modes sync.Mutex // one change at a time, of modes or lists

	mu   sync.Mutex // of the shared status
	at   time.Time
	read status.Reading
	err  error

	connMu    sync.Mutex
	conns     map[net.Conn]uint32 // by user
	following chan struct{}
	done      chan struct{}

	costs    costs
	captures captures
	whyOne   sync.Mutex
}

// SocketPath is the path of an instance's API socket.
func SocketPath(stateDir, name string) string { return stateDir + "/" + name + ".sock" }

// Serve serves the API of an instance whose lock the caller holds. The caller closes the server.
func Serve(opt instance.Options, of Instance, log *slog.Logger) (*Server, error) {
	opt.Complete()
	name := of.Config().Instance
	path := SocketPath(opt.StateDir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a process that was killed
		return nil, fmt.Errorf("api: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	l.SetUnlinkOnClose(false) // the next process may have made its own by then
	s := &Server{opt: opt, of: of, name: name, log: log, conns: map[net.Conn]uint32{}, following: make(chan struct{}, followMax), done: make(chan struct{})}
	if err := s.protect(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("api: %w", err)
	}
	s.http = http.Server{Handler: s.routes(), ReadTimeout: requestTime, WriteTimeout: requestTime + reloadTime, IdleTimeout: requestTime,
		MaxHeaderBytes: headerMax, ConnState: s.connState, ConnContext: keepPeer, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("the API is no longer served", "error", err)
		}
	}()
	return s, nil
}

// protect gives the socket to the group. Until then only its owner can open it: the umask removes write permission.
func (s *Server) protect(path string) (err error) {
	if s.file, err = os.Lstat(path); err != nil {
		return err
	}
	gid := -1
	if g, err := lookupGroup(Group); err == nil {
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			return err
		}
	}
	if gid != -1 {
		st, ok := s.file.Sys().(*syscall.Stat_t)
		if ok && int(st.Gid) == gid {
			return os.Chmod(path, 0o660)
		}
		if err := os.Lchown(path, -1, gid); err != nil {
			s.log.Warn("only the daemon's own user and root can use the API", "error", err)
			return os.Chmod(path, 0o600)
		}
		return os.Chmod(path, 0o660)
	}
	return os.Chmod(path, 0o600)
}

// Close ends the server. Clients that follow events are disconnected.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.done
	s.captures.running.Wait()
	s.costs.end()
	path := SocketPath(s.opt.StateDir, s.name)
	if now, err := os.Lstat(path); err == nil && os.SameFile(now, s.file) {
		_ = os.Remove(path)
	}
}

// connState bounds connections, and those of one user, so that one in the group cannot keep the others out.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	switch state {
	case http.StateNew:
		uid, err := peerOf(c)
		of := 0
		for _, other := range s.conns {
			if other == uid {
				of++
			}
		}
		if err != nil || uid != 0 && of >= connUserMax || len(s.conns) >= connMax {
			_ = c.Close()
			return
		}
		s.conns[c] = uid
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

// peerOf returns the user at the other end.
func peerOf(c net.Conn) (uid uint32, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("no UNIX socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctl != nil {
		return 0, ctl
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/services", s.services)
	mux.HandleFunc("GET /v1/modes", func(w http.ResponseWriter, _ *http.Request) { s.answerModes(w, "") })
	mux.HandleFunc("PUT /v1/services/{service}/mode", s.setMode)
	mux.HandleFunc("DELETE /v1/services/{service}/mode", s.unsetMode)
	mux.HandleFunc("GET /v1/lists", s.lists)
	mux.HandleFunc("POST /v1/lists", s.addToList)
	mux.HandleFunc("DELETE /v1/lists", s.removeFromList)
	mux.HandleFunc("GET /v1/bgp", s.bgp)
	mux.HandleFunc("POST /v1/bgp", s.announce)
	mux.HandleFunc("DELETE /v1/bgp", s.withdraw)
	mux.HandleFunc("POST /v1/reload", s.reload)
	mux.HandleFunc("GET /v1/config/diff", s.diff)
	mux.HandleFunc("GET /v1/conditions", func(w http.ResponseWriter, _ *http.Request) { answer(w, orEmpty(s.of.Events().Active())) })
	mux.HandleFunc("GET /v1/detector", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.opt.Detection.States()) })
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("GET /v1/cost", s.cost)
	mux.HandleFunc("GET /v1/why", s.why)
	mux.HandleFunc("GET /v1/capture", s.capture)
	mux.HandleFunc("DELETE /v1/capture/{number}", s.endCapture)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
		mux.ServeHTTP(w, r)
	})
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// reading returns the current status or a recent one: however many clients ask, maps are walked once a second.
func (s *Server) reading() (status.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) >= statusFresh {
		s.read, s.err = status.ReadAny(s.opt, s.name)
		s.at = time.Now()
	}
	return s.read, s.err
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	r, err := s.reading()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	w.Header().Set(ReadAt, strconv.FormatInt(s.readAt().UnixNano(), 10))
	answer(w, r)
}

// readAt is when the shared status was read.
func (s *Server) readAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *Server) services(w http.ResponseWriter, _ *http.Request) {
	r, err := s.reading()
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	st, ok := r.(*status.Status)
	if !ok {
		answer(w, []status.Service{})
		return
	}
	answer(w, orEmpty(st.Services))
}

// decode reads one object of JSON and nothing beside it.
func decode(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one object; send one")
	}
	return nil
}

// refuseBody answers with what is wrong with a body.
func refuseBody(w http.ResponseWriter, err error) {
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("more than %d bytes", bodyMax))
		return
	}
	refuse(w, http.StatusBadRequest, fmt.Errorf("the body: %w", err))
}
