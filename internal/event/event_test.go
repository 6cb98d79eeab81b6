// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 30 * time.Second

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func open(t *testing.T, dir string, takers ...Taker) *Stream {
	t.Helper()
	s, err := Open(filepath.Join(dir, "a.events"), "a", "host", quiet(), takers...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kill ends a stream as the death of its process does: nothing more is written or taken.
func (s *Stream) kill() {
	close(s.stop)
	s.done.Wait()
	s.lock.Close()
}

func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func lines(t *testing.T, path string) (list []Event) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, e)
	}
	return list
}

// once checks that the numbers are 1 to n, each once and in order.
func once(t *testing.T, list []Event, n int) {
	t.Helper()
	ids := map[string]bool{}
	for i, e := range list {
		if e.Seq != uint64(i+1) || ids[e.ID] {
			t.Errorf("event %d is number %d, %s", i, e.Seq, e.ID)
		}
		ids[e.ID] = true
	}
	if len(list) != n {
		t.Errorf("%d events, want %d", len(list), n)
	}
}

// At whatever moment a process is killed, each event is in the file once.
func TestFileOnceOverRestarts(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.json")
	s := open(t, dir, NewFile(out))
	s.Start("protecting", map[string]string{})
	await(t, "a line", func() bool { return len(lines(t, out)) == 1 })
	await(t, "the state is saved", func() bool { _, err := os.Stat(s.path); return err == nil })
	s.mu.Lock()
	before, err := os.ReadFile(s.path) // before the next line
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.Emit(ConfigChanged, "x", nil)
	await(t, "two lines", func() bool { return len(lines(t, out)) == 2 })
	s.kill()

	// Killed after the line and before its cursor was saved: the state has the event, but not that it was taken.
	var st state
	text, err := os.ReadFile(s.path)
	if err != nil || json.Unmarshal(text, &st) != nil {
		t.Fatal(err)
	}
	st.Taken[NewFile(out).Name()] = 0
	if text, err = json.Marshal(&st); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, NewFile(out))
	s.Start("protecting", map[string]string{})
	s.Close("stopped")
	got := lines(t, out)
	once(t, got, 4)
	if got[2].Detail["after"] == "" || got[0].Detail["after"] != "" {
		t.Errorf("the killed process is not told of: %+v", got)
	}

	// Half a line, left by a power failure.
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, `{"id":"%s-5","seq":5,"ti`, s.state.Generation)
	f.Close()
	s = open(t, dir, NewFile(out))
	s.Start("protecting", map[string]string{})
	s.Close("stopped")
	once(t, lines(t, out), 6)

	// A damaged state is a new start, not a failure, and its numbers are distinguishable.
	if err := os.WriteFile(s.path, before[:len(before)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, NewFile(out))
	s.Start("protecting", map[string]string{})
	s.Close("stopped")
	if got := lines(t, out); len(got) != 8 || got[6].Seq != 1 || got[6].ID == got[0].ID {
		t.Errorf("after a damaged state: %+v", got)
	}
}

// receiver is a webhook's other end.
type receiver struct {
	mu     sync.Mutex
	answer func(n int) int // to the nth request
	n      int
	got    []Event
	*httptest.Server
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var e Event
		if err := json.NewDecoder(req.Body).Decode(&e); err != nil || req.Header.Get("Idempotency-Key") != e.ID {
			t.Errorf("%v: %v", err, req.Header)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.n++
		status := r.answer(r.n)
		if status == http.StatusOK {
			r.got = append(r.got, e)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func quick(t *testing.T) {
	was := pauseFirst
	pauseFirst = time.Millisecond
	t.Cleanup(func() { pauseFirst = was })
}

// Events that a webhook refuses temporarily are retried, in order; those it refuses permanently are not.
func TestWebhookRetries(t *testing.T) {
	quick(t)
	r := newReceiver(t, func(n int) int {
		return map[int]int{1: http.StatusServiceUnavailable, 2: http.StatusTooManyRequests, 4: http.StatusBadRequest}[n]
	})
	ok := r.answer
	r.answer = func(n int) int {
		if c := ok(n); c != 0 {
			return c
		}
		return http.StatusOK
	}
	dir := t.TempDir()
	s := open(t, dir, NewWebhook(r.URL+"/secret"))
	for i := range 4 {
		s.Emit(ConfigChanged, fmt.Sprint(i), nil)
	}
	await(t, "all but one", func() bool { return len(r.events()) == 3 })
	s.Close("stopped")
	var seqs []uint64
	for _, e := range r.events() {
		seqs = append(seqs, e.Seq)
	}
	if !slices.Equal(seqs, []uint64{1, 3, 4, 5}) {
		t.Errorf("got %v", seqs)
	}
	if strings.Contains(NewWebhook(r.URL+"/secret").Name(), "secret") {
		t.Error("the address is told")
	}
}

// What a dead webhook missed it gets after a restart, once, and no more than is kept. Nothing waits for it.
func TestDeadWebhookCostsNothing(t *testing.T) {
	quick(t)
	var mu sync.Mutex
	dead := true
	r := newReceiver(t, func(int) int {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return http.StatusBadGateway
		}
		return http.StatusOK
	})
	dir := t.TempDir()
	out := filepath.Join(dir, "out.json")
	s := open(t, dir, NewWebhook(r.URL))
	const many = 20_000
	for i := range many {
		s.Emit(ConfigChanged, fmt.Sprint(i), nil)
	}
	if n := len(s.state.Recent); n != keepEvents {
		t.Errorf("%d events are kept", n)
	}
	await(t, "saved", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.savedSeq == many })
	if info, err := os.Stat(s.path); err != nil || info.Size() > 256<<10 {
		t.Errorf("the state: %v, %v", info, err)
	}
	s.kill()
	mu.Lock()
	dead = false
	mu.Unlock()
	s = open(t, dir, NewWebhook(r.URL), NewFile(out))
	await(t, "what is left", func() bool { return len(r.events()) == keepEvents })
	s.Close("stopped")
	got := r.events()
	for i, e := range got {
		if e.Seq != uint64(many-keepEvents+1+i) {
			t.Fatalf("event %d is number %d", i, e.Seq)
		}
	}
	if got := lines(t, out); len(got) != 1 || got[0].Kind != Stopped {
		t.Errorf("a new taker gets what is old: %v", got)
	}
}

// A command gets the event on its standard input; a failed one is retried, a hanging one is killed with its children.
func TestCommand(t *testing.T) {
	quick(t)
	wasTime := commandTime
	commandTime = 500 * time.Millisecond
	t.Cleanup(func() { commandTime = wasTime })
	dir := t.TempDir()
	script := filepath.Join(dir, "hook")
	body := `#!/bin/sh
n=$(ls ` + dir + `/try.* 2>/dev/null | wc -l)
: > ` + dir + `/try.$n
case $n in 0) echo no >&2; exit 1;; 1) sleep 1000 & echo $! > ` + dir + `/child; wait;; esac
cat >> ` + dir + `/got
`
	if err := os.WriteFile(script, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, NewCommand([]string{script}))
	s.Emit(ConfigChanged, "x", nil)
	await(t, "the third attempt", func() bool { _, err := os.Stat(dir + "/got"); return err == nil })
	s.Close("stopped")
	once(t, lines(t, dir+"/got"), 2)
	child, err := os.ReadFile(dir + "/child")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the child is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// A condition makes one event when it begins and one when it has ended, across restarts, and flapping makes few.
func TestConditions(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1700000000, 0)
	begin := func() *Stream {
		s := open(t, dir)
		s.now = func() time.Time { return now }
		return s
	}
	kinds := func(s *Stream) (list []Kind) {
		events, _ := s.After(0)
		for _, e := range events {
			list = append(list, e.Kind)
		}
		return list
	}
	c := []Condition{{Name: "no-listener", Service: "web", Message: "nothing listens"}}
	s := begin()
	for range 100 { // comes and goes every second
		s.Conditions(c)
		now = now.Add(time.Second)
		s.Conditions(nil)
		now = now.Add(time.Second)
	}
	if got := kinds(s); !slices.Equal(got, []Kind{Degraded}) {
		t.Errorf("flapping: %v", got)
	}
	await(t, "saved", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.saved == s.dirty })
	s.kill()
	s = begin()
	s.Conditions(c)
	if got := kinds(s); !slices.Equal(got, []Kind{Degraded}) || len(s.Active()) != 1 {
		t.Errorf("after a restart: %v", got)
	}
	s.Conditions(nil)
	now = now.Add(endAfter)
	s.Conditions(nil)
	s.Conditions(nil)
	if got := kinds(s); !slices.Equal(got, []Kind{Degraded, Recovered}) || len(s.Active()) != 0 {
		t.Errorf("in the end: %v", got)
	}
	var many []Condition
	for i := range 10 * keepConditions {
		many = append(many, Condition{Name: "x", Subject: fmt.Sprint(i)})
	}
	s.Conditions(many)
	if n := len(s.Active()); n != keepConditions {
		t.Errorf("%d conditions are remembered", n)
	}
	s.Close("stopped")
}

// If a file cannot be written, only its lines are delayed.
func TestFullFile(t *testing.T) {
	quick(t)
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, NewFile(filepath.Join(dir, "out")))
	s.Emit(ConfigChanged, "x", nil)
	await(t, "saved", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.savedSeq == 1 })
	if err := os.Remove(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	await(t, "the line", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "out"))
		return err == nil && len(text) > 0
	})
	s.Close("stopped")
	once(t, lines(t, filepath.Join(dir, "out")), 2)
}

// Two processes never write one state.
func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	done := make(chan *Stream)
	go func() {
		second, err := Open(s.path, "a", "host", quiet())
		if err != nil {
			t.Error(err)
		}
		done <- second
	}()
	s.Emit(ConfigChanged, "x", nil)
	s.Close("stopped")
	second := <-done
	if _, last := second.After(0); last != 2 {
		t.Errorf("the second begins at %d", last)
	}
	second.Close("stopped")
}

func TestJournalFields(t *testing.T) {
	e := Event{ID: "x-1", Seq: 1, Kind: Degraded, Instance: "a", Role: "host", Name: "no-listener", Detail: map[string]string{"keys-until": "never"}}
	got := fields(&e)
	for k, v := range map[string]string{"TIDEGATE_KIND": "degraded", "TIDEGATE_CONDITION": "no-listener", "TIDEGATE_KEYS_UNTIL": "never", "TIDEGATE_SEQ": "1"} {
		if got[k] != v {
			t.Errorf("%s is %q", k, got[k])
		}
	}
	if _, there := got["TIDEGATE_SERVICE"]; there {
		t.Error("an empty field")
	}
	for _, k := range []Kind{Started, Stopped, ConfigChanged, ReloadRefused, Degraded, Recovered} {
		if _, there := priorities[k]; !there {
			t.Errorf("%s has no priority", k)
		}
	}
}
