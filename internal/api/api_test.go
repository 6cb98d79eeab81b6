// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"tidegate/internal/config"
	"tidegate/internal/event"
	"tidegate/internal/instance"
)

const patience = 30 * time.Second

// daemon is an instance without a packet path: configuration, modes, reloads and events are the real ones.
type daemon struct {
	opt    instance.Options
	cfg    *config.Config
	stream *event.Stream
	refuse error

	routers Routers
}

func (d *daemon) Config() *config.Config { return d.cfg }
func (d *daemon) Events() *event.Stream  { return d.stream }
func (d *daemon) Routers() Routers       { return d.routers }
func (d *daemon) Reload(context.Context) ([]string, error) {
	next, err := d.opt.Load()
	if err = errors.Join(err, d.refuse); err != nil {
		return nil, err
	}
	changed := config.Difference(d.cfg, next)
	d.cfg = next
	return changed, nil
}

const text = "interfaces: [eth0]\nsecret_file: /s\nservices:\n  - {name: web, ports: [80], mode: always}\n  - {name: mail, ports: [25], mode: monitor}\n"

func serve(t *testing.T) (*daemon, *Server, *Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg-api-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	d := &daemon{opt: instance.Options{ConfigPath: filepath.Join(dir, "c.yaml"), StateDir: dir, Log: log}}
	d.write(t, text)
	if d.cfg, err = d.opt.Load(); err != nil {
		t.Fatal(err)
	}
	if d.stream, err = event.Open(filepath.Join(dir, "default.events"), "default", "host", log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stream.Close("end") })
	s, err := Serve(d.opt, d, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return d, s, NewClient(dir, "default")
}

func (d *daemon) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(d.opt.ConfigPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestModes(t *testing.T) {
	d, s, c := serve(t)
	ctx := t.Context()
	want := func(service string, mode, configured config.Mode, byHand bool) {
		t.Helper()
		all := map[string]Mode{}
		if err := c.Do(ctx, http.MethodGet, "/v1/modes", nil, &all); err != nil || all[service] != (Mode{mode, configured, byHand}) {
			t.Errorf("%v, %+v", err, all)
		}
	}
	want("web", "always", "always", false)
	put := func(service, mode string) error {
		return c.Do(ctx, http.MethodPut, "/v1/services/"+service+"/mode", map[string]string{"mode": mode}, nil)
	}
	if err := put("web", "monitor"); err != nil || d.cfg.Services[0].Mode != config.ModeMonitor {
		t.Errorf("%v, %+v", err, d.cfg.Services)
	}
	want("web", "monitor", "always", true)
	if again, err := d.opt.Load(); err != nil || again.Services[0].Mode != config.ModeMonitor { // what a restart reads
		t.Error(err, again)
	}
	for service, mode := range map[string]string{"nobody": "monitor", "web": "loud"} {
		if err := put(service, mode); err == nil {
			t.Errorf("%s: %s was taken", service, mode)
		}
	}
	d.refuse = errors.New("busy")
	if err := put("web", "off"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Error(err)
	}
	d.refuse = nil
	want("web", "monitor", "always", true) // a refused change leaves nothing for the next reload
	if err := c.Do(ctx, http.MethodDelete, "/v1/services/web/mode", nil, nil); err != nil {
		t.Error(err)
	}
	want("web", "always", "always", false)
	if _, err := os.Stat(filepath.Join(s.opt.StateDir, "default.modes")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file of modes stays:", err)
	}
}

func TestReloadAndDiff(t *testing.T) {
	d, _, c := serve(t)
	d.write(t, strings.Replace(text, "[25], mode: monitor", "[26]", 1)+"clock_skew: 1s\n")
	var diff []Change
	if err := c.Do(t.Context(), http.MethodGet, "/v1/config/diff", nil, &diff); err != nil {
		t.Fatal(err)
	}
	if len(diff) != 2 || diff[0] != (Change{Name: "clock_skew", Running: "0s", File: "1s"}) || diff[1] != (Change{Name: "services.mail", Live: true}) {
		t.Errorf("%+v", diff)
	}
	d.write(t, strings.Replace(text, "[25], mode: monitor", "[26]", 1))
	var done struct{ Changed []string }
	if err := c.Do(t.Context(), http.MethodPost, "/v1/reload", nil, &done); err != nil || len(done.Changed) != 1 || done.Changed[0] != "services.mail" {
		t.Error(err, done)
	}
	d.write(t, "nonsense: 1\n")
	for path, method := range map[string]string{"/v1/reload": http.MethodPost, "/v1/config/diff": http.MethodGet} {
		if err := c.Do(t.Context(), method, path, nil, nil); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestEventsFollowed(t *testing.T) {
	d, _, c := serve(t)
	d.stream.Emit(event.ConfigChanged, "first", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	err := c.Lines(ctx, "/v1/events?follow=1", func(line json.RawMessage) error {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if got = append(got, e.Message); len(got) == 3 {
			return io.EOF
		}
		d.stream.Emit(event.ConfigChanged, fmt.Sprint("then ", len(got)), nil)
		return nil
	})
	if !errors.Is(err, io.EOF) || strings.Join(got, ", ") != "first, then 1, then 2" {
		t.Errorf("%v: %v", err, got)
	}
	var after []string
	if err := c.Lines(ctx, "/v1/events?after=2", func(line json.RawMessage) error { after = append(after, string(line)); return nil }); err != nil || len(after) != 1 {
		t.Error(err, after)
	}
}

// raw sends bytes and reads the first line of the answer.
func raw(t *testing.T, s *Server, send string) string {
	t.Helper()
	conn := dial(t, s)
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(conn, send) }()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", SocketPath(s.opt.StateDir, s.name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Clients that abuse the API are refused or disconnected, and no other client is affected.
func TestAbuse(t *testing.T) {
	wasRequest, wasLine := requestTime, lineTime
	requestTime, lineTime = 300*time.Millisecond, 300*time.Millisecond
	t.Cleanup(func() { requestTime, lineTime = wasRequest, wasLine })
	d, s, c := serve(t)
	ok := func() {
		t.Helper()
		if err := c.Do(t.Context(), http.MethodGet, "/v1/modes", nil, nil); err != nil {
			t.Errorf("an honest client: %v", err)
		}
	}
	for _, abuse := range []struct{ what, send, want string }{
		{"a huge body", "PUT /v1/services/web/mode HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n{\"mode\":\"" + strings.Repeat("x", bodyMax+1), "HTTP/1.1 413"},
		{"huge headers", "GET /v1/modes HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", headerMax+8<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		{"no JSON", "PUT /v1/services/web/mode HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{", "HTTP/1.1 400"},
		{"unknown fields", "PUT /v1/services/web/mode HTTP/1.1\r\nHost: x\r\nContent-Length: 25\r\n\r\n{\"mode\":\"off\",\"x\":\"0000\"}", "HTTP/1.1 400"},
		{"two objects", "PUT /v1/services/web/mode HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"mode\":\"off\"}{}", "HTTP/1.1 400"},
		{"another method", "POST /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405"},
		{"another path", "GET /v1/../../etc/shadow HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 3"},
		{"a slow head", "GET /v1/mo", "HTTP/1.1 400"},
		{"a number that is none", "GET /v1/events?after=-1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
	} {
		got := raw(t, s, abuse.send)
		if !strings.HasPrefix(got, abuse.want) {
			t.Errorf("%s: %q, want %q", abuse.what, got, abuse.want)
		}
		ok()
	}
	if d.cfg.Services[0].Mode != config.ModeAlways {
		t.Error("a refused request has changed a mode")
	}

	// Followers that do not read are disconnected; followers above the limit are refused.
	for range followMax {
		conn := dial(t, s)
		if u, ok := conn.(*net.UnixConn); ok {
			_ = u.SetReadBuffer(1)
		}
		fmt.Fprint(conn, "GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for end := time.Now().Add(patience); len(s.following) < followMax; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the followers do not follow")
		}
	}
	if got := raw(t, s, "GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503") {
		t.Errorf("one follower too many: %q", got)
	}
	for end := time.Now().Add(patience); len(s.following) > 0; time.Sleep(10 * time.Millisecond) {
		d.stream.Emit(event.ConfigChanged, strings.Repeat("x", 10_000), nil)
		if time.Now().After(end) {
			t.Fatalf("%d followers who do not read are still there", len(s.following))
		}
	}
	ok()
}

const envHog = "TIDEGATE_TEST_HOG" // makes this test binary hold connections as another user

func TestMain(m *testing.M) {
	path := os.Getenv(envHog)
	if path == "" {
		os.Exit(m.Run())
	}
	var held []net.Conn
	for range 2 * connMax {
		if c, err := net.Dial("unix", path); err == nil {
			held = append(held, c)
		}
	}
	fmt.Println("held", len(held))
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// One user cannot keep the others out.
func TestOneUserHoldsConnections(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	_, s, c := serve(t)
	path := SocketPath(s.opt.StateDir, s.name)
	if err := errors.Join(os.Chmod(s.opt.StateDir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(s.opt.StateDir, "hog")
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	hog := exec.Command(exe)
	hog.Env = append(os.Environ(), envHog+"="+path)
	hog.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	in, err := hog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hog.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = hog.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/v1/modes", nil, nil); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // all are accepted, and most are closed
		s.connMu.Lock()
		n := 0
		for _, uid := range s.conns {
			if uid == 65534 {
				n++
			}
		}
		s.connMu.Unlock()
		if n == connUserMax {
			break
		}
		if n > connUserMax || time.Now().After(end) {
			t.Fatalf("one user holds %d connections", n)
		}
	}
}

// Only the group tidegate has the socket: a user in it gets an answer, and a user outside it cannot even connect.
func TestSocketIsTheGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be other users")
	}
	const gid = 64123
	asked := ""
	lookupGroup = func(name string) (*user.Group, error) {
		asked = name
		return &user.Group{Gid: strconv.Itoa(gid), Name: name}, nil
	}
	t.Cleanup(func() { lookupGroup = user.LookupGroup })
	_, s, _ := serve(t)
	path := SocketPath(s.opt.StateDir, s.name)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); asked != "tidegate" || info.Mode().Perm() != 0o660 || st.Gid != gid || st.Uid != 0 {
		t.Errorf("%s of group %q: mode %o, owner %d:%d", path, asked, info.Mode().Perm(), st.Uid, st.Gid)
	}
	if err := os.Chmod(s.opt.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(s.opt.StateDir, "hog")
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for of, reaches := range map[uint32]bool{gid: true, gid + 1: false} {
		other := exec.CommandContext(t.Context(), exe) // its input is empty, so it ends by itself
		other.Env = append(os.Environ(), envHog+"="+path)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: of}, Pdeathsig: syscall.SIGKILL}
		out, err := other.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(out) != "held 0\n"; got != reaches {
			t.Errorf("a user of group %d: %q", of, out)
		}
	}
}

// The socket is its owner's until the group has it, and the description lists what exists.
func TestDescription(t *testing.T) {
	_, s, _ := serve(t)
	info, err := os.Stat(SocketPath(s.opt.StateDir, s.name))
	if err != nil || info.Mode().Perm()&^0o660 != 0 {
		t.Error(err, info.Mode())
	}
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			if method == "parameters" {
				continue
			}
			n++
			at := strings.ReplaceAll(path, "{service}", "web")
			got := raw(t, s, strings.ToUpper(method)+" "+at+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			if strings.HasPrefix(got, "HTTP/1.1 404") || strings.HasPrefix(got, "HTTP/1.1 405") || !strings.HasPrefix(got, "HTTP/1.1 ") {
				t.Errorf("%s %s is described, and is not there: %s", method, path, got)
			}
		}
	}
	source, err := os.ReadFile("api.go")
	if err != nil {
		t.Fatal(err)
	}
	if routes := strings.Count(string(source), "mux.HandleFunc("); routes != n {
		t.Errorf("%d routes, %d described", routes, n)
	}
}
