// SPDX-License-Identifier: Apache-2.0

package event

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keepEvents is how many events are kept for takers that have not taken them yet, in memory and in the file.
	// If there are more, the oldest are lost to the taker, which sees the gap in the numbers.
	keepEvents = 256
	// keepConditions bounds the number of active conditions.
	keepConditions = 256
	// endAfter is how long a condition must be absent to count as ended: flapping makes an event in
	// ten seconds, not one a second.
	endAfter = 10 * time.Second
)

// state is what survives a restart.
type state struct {
	Generation string               `json:"generation"` // of the numbers: drawn if there was no state file
	Seq        uint64               `json:"seq"`
	Running    bool                 `json:"running"` // Started was emitted, Stopped was not
	Active     map[string]Condition `json:"active"`
	Taken      map[string]uint64    `json:"taken"`  // the last event that each taker has, by its name
	Recent     []Event              `json:"recent"` // the last keepEvents
}

// Stream emits the events of one instance.
type Stream struct {
	instance, role, path string
	log                  *slog.Logger
	now                  func() time.Time

	mu       sync.Mutex
	state    state
	absent   map[string]time.Time // since when an active condition has been absent
	overflow bool
	dirty    uint64 // changes so far
	saved    uint64 // of them, those on disk
	savedSeq uint64 // the last event on disk
	changed  chan struct{}
	watchers map[chan struct{}]struct{} // notified of changes; each channel holds one value

	lock    *os.File
	saveErr error // the last one, so that it is logged once
	stop    chan struct{}
	done    sync.WaitGroup
}

// Open continues the stream of an instance, whose state is at path. Its takers get what they have missed.
func Open(path, instance, role string, log *slog.Logger, takers ...Taker) (*Stream, error) {
	s := &Stream{instance: instance, role: role, path: path, log: log, now: time.Now, absent: map[string]time.Time{},
		changed: make(chan struct{}, 1), watchers: map[chan struct{}]struct{}{}, stop: make(chan struct{})}
	if err := s.own(); err != nil {
		return nil, err
	}
	if err := s.resume(takers); err != nil {
		s.lock.Close()
		return nil, err
	}
	s.done.Go(s.saves)
	for _, t := range takers {
		s.done.Go(func() { s.feed(t) })
	}
	return s, nil
}

// ownWait is how long the previous process may take to deliver its last events.
const ownWait = closeWait + 3*time.Second

// own makes this process the only one that writes the state.
func (s *Stream) own() (err error) {
	if s.lock, err = os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	for end := time.Now().Add(ownWait); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			s.lock.Close()
			return fmt.Errorf("events: another process writes %s: %w", s.path, err)
		}
	}
}

// resume continues where the previous process ended.
func (s *Stream) resume(takers []Taker) error {
	if err := s.load(); err != nil {
		return err
	}
	s.forget(takers)
	for _, t := range takers {
		if t, ok := t.(resumer); ok {
			if err := t.resume(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// load reads what the previous process left; an unreadable file means a new start.
func (s *Stream) load() error {
	text, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("events: %w", err)
	default:
		if err := json.Unmarshal(text, &s.state); err != nil || s.state.Generation == "" {
			s.log.Warn("the event state file is damaged; numbering starts over", "file", s.path)
			s.state = state{}
		}
	}
	if s.state.Generation == "" {
		var raw [6]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return err
		}
		s.state.Generation = hex.EncodeToString(raw[:])
	}
	if s.state.Active == nil {
		s.state.Active = map[string]Condition{}
	}
	if s.state.Taken == nil {
		s.state.Taken = map[string]uint64{}
	}
	s.savedSeq = s.state.Seq
	return nil
}

// forget drops takers that the configuration no longer names; a new one starts with the next event.
func (s *Stream) forget(takers []Taker) {
	taken := map[string]uint64{}
	for _, t := range takers {
		last, known := s.state.Taken[t.Name()]
		if !known {
			last = s.state.Seq
		}
		taken[t.Name()] = last
	}
	s.state.Taken = taken
}

// Start emits Started, which notes if the previous process did not end properly.
func (s *Stream) Start(message string, detail map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Running {
		detail["after"] = "a process that was killed"
	}
	s.state.Running = true
	s.emit(Event{Kind: Started, Message: message, Detail: detail})
}

// Emit emits an event. It never waits.
func (s *Stream) Emit(kind Kind, message string, detail map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(Event{Kind: kind, Message: message, Detail: detail})
}

// EmitService emits an event about one service.
func (s *Stream) EmitService(kind Kind, service, message string, detail map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(Event{Kind: kind, Service: service, Message: message, Detail: detail})
}

// emit needs the lock.
func (s *Stream) emit(e Event) {
	st := &s.state
	st.Seq++
	e.ID, e.Seq = fmt.Sprintf("%s-%d", st.Generation, st.Seq), st.Seq
	e.Time, e.Instance, e.Role = s.now().UTC(), s.instance, s.role
	st.Recent = append(st.Recent, e)
	if len(st.Recent) > keepEvents {
		st.Recent = append([]Event(nil), st.Recent[len(st.Recent)-keepEvents:]...)
	}
	s.touch()
}

// touch triggers saving the state and delivery; it needs the lock.
func (s *Stream) touch() {
	s.dirty++
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Conditions sets the active conditions; each one that begins or ends makes an event.
func (s *Stream) Conditions(now []Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for _, c := range now {
		key := c.key()
		seen[key] = true
		delete(s.absent, key)
		if _, active := s.state.Active[key]; active {
			continue
		}
		if len(s.state.Active) >= keepConditions {
			if !s.overflow {
				s.overflow = true
				s.log.Warn("more conditions are active than the event stream tracks; see `tidegate status`", "conditions", keepConditions)
			}
			continue
		}
		s.state.Active[key] = c
		s.emit(c.event(Degraded, c.Message))
	}
	for key, c := range s.state.Active {
		if seen[key] {
			continue
		}
		since, away := s.absent[key]
		if !away {
			s.absent[key] = s.now()
			continue
		}
		if s.now().Sub(since) >= endAfter {
			delete(s.absent, key)
			delete(s.state.Active, key)
			s.overflow = false
			s.emit(c.event(Recovered, "no longer: "+c.Message))
		}
	}
}

func (c *Condition) event(kind Kind, message string) Event {
	e := Event{Kind: kind, Name: c.Name, Service: c.Service, Message: message}
	if c.Subject != "" || len(c.Detail) > 0 {
		e.Detail = map[string]string{}
		for k, v := range c.Detail {
			e.Detail[k] = v
		}
		if c.Subject != "" {
			e.Detail["subject"] = c.Subject
		}
	}
	return e
}

// Active are the active conditions.
func (s *Stream) Active() (list []Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.state.Active {
		list = append(list, c)
	}
	return list
}

// After returns the kept events with a number above seq, oldest first, and the last number.
func (s *Stream) After(seq uint64) (events []Event, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.state.Recent {
		if e.Seq > seq {
			events = append(events, e)
		}
	}
	return events, s.state.Seq
}

// Watch notifies of changes until done is called: the channel has a value when there may be new events.
func (s *Stream) Watch() (changes <-chan struct{}, done func()) {
	w := make(chan struct{}, 1)
	w <- struct{}{}
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	return w, func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}
}

// saves writes the state after changes, then notifies those that wait for it.
func (s *Stream) saves() {
	for {
		select {
		case <-s.changed:
			s.save()
		case <-s.stop:
			s.save()
			return
		}
	}
}

// save writes a temporary file and renames it. Takers are notified afterwards: what they get is already saved.
func (s *Stream) save() {
	s.mu.Lock()
	text, err := json.Marshal(&s.state)
	at, seq := s.dirty, s.state.Seq
	s.mu.Unlock()
	if err == nil {
		fresh := s.path + ".new"
		if err = os.WriteFile(fresh, text, 0o600); err == nil {
			err = os.Rename(fresh, s.path)
		}
	}
	if err != nil && s.saveErr == nil {
		s.log.Error("the event state cannot be saved; events will not survive a restart", "error", err)
	}
	s.saveErr = err
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved, s.savedSeq = at, seq
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// next is the next event for a taker, if it is already saved, and how many before it are lost to the taker.
func (s *Stream) next(taker string) (e Event, lost uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.state.Taken[taker]
	for _, e := range s.state.Recent {
		if e.Seq > last && e.Seq <= s.savedSeq {
			return e, e.Seq - last - 1, true
		}
	}
	return e, 0, false
}

func (s *Stream) took(taker string, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Taken[taker] = max(s.state.Taken[taker], seq)
	s.touch()
}

// closeWait is how long takers may still take at the end; the next process delivers the rest.
const closeWait = 2 * time.Second

// Close emits Stopped and ends the stream.
func (s *Stream) Close(message string) {
	s.mu.Lock()
	s.state.Running = false
	s.emit(Event{Kind: Stopped, Message: message})
	s.mu.Unlock()
	s.flush(closeWait)
	close(s.stop)
	s.done.Wait()
	s.save() // the last deliveries
	s.lock.Close()
}

// flush waits until every taker has everything, or until the timeout.
func (s *Stream) flush(limit time.Duration) {
	changes, done := s.Watch()
	defer done()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		behind := s.saved < s.dirty
		for _, last := range s.state.Taken {
			behind = behind || last < s.state.Seq
		}
		s.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-changes:
		case <-timer.C:
			return
		}
	}
}
