// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/event"
	harness "tidegate/test/world"
)

// withJournal makes the binary believe that systemd's journal is a socket of ours: it runs in mounts of its own.
func (w *world) withJournal() (binary string, messages func() string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "journal")
	w.must(os.Mkdir(dir, 0o755))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if err != nil {
		w.t.Fatal(err)
	}
	var got harness.Output
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintf(&got, "%s\n", buf[:n])
		}
	}()
	w.t.Cleanup(func() {
		conn.Close()
		<-done
	})
	binary = filepath.Join(w.dir, "in-mounts")
	w.must(os.WriteFile(binary, []byte(`#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs journal /run/systemd && mkdir /run/systemd/journal &&
    mount --bind `+dir+` /run/systemd/journal && exec `+tidegate+` "$@"' sh "$@"
`), 0o700))
	return binary, got.String
}

// webhook takes events in the server's namespace, where the gate is.
func (w *world) webhook() (address string, events func() []event.Event) {
	w.t.Helper()
	var l net.Listener
	err := w.Server.Do(func() (err error) {
		l, err = net.Listen("tcp4", w.ServerAddr(false).String()+":0")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var mu sync.Mutex
	var got []event.Event
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e event.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			w.t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	w.t.Cleanup(func() {
		server.Close()
		<-done
	})
	return "http://" + l.Addr().String(), func() []event.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// Each event of an instance is reported once to every receiver, over a reload, a kill -9 and a restart.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	binary, journal := w.withJournal()
	address, hooked := w.webhook()
	file, commandLog := filepath.Join(w.dir, "events.json"), filepath.Join(w.dir, "said")
	t.Cleanup(func() {
		_ = os.Remove("/run/tidegate/" + w.Instance + ".events")
		_ = os.Remove("/run/tidegate/" + w.Instance + ".events.lock")
	})
	config := w.webConfig(webPort, "events: {file: events.json, webhook: '"+address+"', command: [/bin/sh, -c, 'cat >> "+commandLog+"'], journal: yes}")

	g := w.launchBinary(binary, config)
	read := func(path string) (list []event.Event) {
		text, _ := os.ReadFile(path) // it may not exist yet
		for line := range bytes.Lines(text) {
			var e event.Event
			if json.Unmarshal(line, &e) == nil {
				list = append(list, e)
			}
		}
		return list
	}
	awaitKind := func(n int, kind event.Kind) event.Event {
		t.Helper()
		g.Await(fmt.Sprintf("event %d, %s, everywhere", n, kind), func() bool {
			return len(read(file)) >= n && len(read(commandLog)) >= n && len(hooked()) >= n && strings.Count(journal(), "TIDEGATE_KIND=") >= n
		})
		e := read(file)[n-1]
		if e.Kind != kind {
			t.Fatalf("event %d is %+v, want %s", n, e, kind)
		}
		return e
	}
	awaitKind(1, event.Started)
	if e := awaitKind(2, event.Degraded); e.Name != "no-listener" || e.Service != "web" || e.Instance != w.Instance || e.Role != "host" {
		t.Errorf("%+v", e)
	}
	w.writeConfig(config + "  - name: mail\n    ports: [25]\n    mode: \"off\"\n")
	g.Reload(config+"  - name: mail\n    ports: [25]\n    mode: \"off\"\n", "msg=reloaded")
	if e := awaitKind(3, event.ConfigChanged); e.Detail["changed"] != "services.mail (new)" {
		t.Errorf("%+v", e)
	}
	g.Reload(config+"metrics: 127.0.0.1:1\n", "reload refused")
	if e := awaitKind(4, event.ReloadRefused); !strings.Contains(e.Detail["error"], "metrics") {
		t.Errorf("%+v", e)
	}
	// What was delivered and not yet saved as such is delivered once more, under the same ID.
	w.await("four deliveries to each of the four to be saved", func() bool { return w.delivered(4) == 4 })
	g.Kill()
	g = w.launchBinary(binary, config)
	if e := awaitKind(5, event.Started); e.Detail["after"] == "" {
		t.Errorf("%+v", e)
	}
	g.Await("ready", func() bool { return strings.Contains(g.Stdout.String(), "ready\n") })
	g.Interrupt()
	// What the gate sent to the journal's socket before it ended may still be in it.
	w.await("six events in the journal", func() bool { return strings.Count(journal(), "TIDEGATE_KIND=") >= 6 })
	got := map[string][]event.Event{"file": read(file), "webhook": hooked(), "command": read(commandLog)}
	for who, list := range got { // the condition persisted, and was not reported again
		for i, e := range list {
			if e.Seq != uint64(i+1) || i == 5 && e.Kind != event.Stopped {
				t.Errorf("%s: event %d is %+v", who, i, e)
			}
		}
		if len(list) != 6 {
			t.Errorf("%s has %d events", who, len(list))
		}
	}
	if n := strings.Count(journal(), "TIDEGATE_KIND="); n != 6 {
		t.Errorf("the journal has %d events:\n%s", n, journal())
	}
}

// delivered is how many receivers have, by the saved state, taken all events up to seq.
func (w *world) delivered(seq uint64) (takers int) {
	var state struct {
		Taken map[string]uint64 `json:"taken"`
	}
	text, err := os.ReadFile("/run/tidegate/" + w.Instance + ".events")
	if err != nil || json.Unmarshal(text, &state) != nil {
		return 0
	}
	for _, last := range state.Taken {
		if last >= seq {
			takers++
		}
	}
	return takers
}
