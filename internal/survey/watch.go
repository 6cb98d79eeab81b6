// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Watcher keeps a survey of one network namespace up to date.
type Watcher struct {
	now     atomic.Pointer[Machine]
	changed chan struct{}
	stop    int // an eventfd: readable when it is time to end
	stopped chan struct{}
	home    *os.File // the network namespace
	events  []int    // netlink sockets
	reads   atomic.Uint64
	spent   atomic.Int64 // on surveys since the first, in nanoseconds
}

const (
	settleTime   = 100 * time.Millisecond // rules change in bursts
	settleAtMost = 300 * time.Millisecond
	pollEvery    = 500 * time.Millisecond // legacy tables, sysctls, IPVS and BPF programs send no notification
	pollShare    = 20                     // of the time one in so many parts is for polls: of huge tables there are fewer
	surveyShare  = 5                      // likewise for surveys and the verdicts asked of them, where rules change without end
)

// Watch reads the network namespace of the calling thread, and goes on doing so when something
// changes, until Close.
func Watch() (*Watcher, error) {
	w := &Watcher{changed: make(chan struct{}, 1), stopped: make(chan struct{})}
	var err error
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if w.home, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		unix.Close(w.stop)
		return nil, err
	}
	for _, e := range []struct {
		protocol int
		groups   []int
	}{
		{unix.NETLINK_NETFILTER, []int{unix.NFNLGRP_NFTABLES}},
		{unix.NETLINK_ROUTE, []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}},
	} {
		s, err := listen(e.protocol, e.groups)
		if errors.Is(err, unix.EPROTONOSUPPORT) { // a kernel without nftables has no notifications either
			continue
		}
		if err != nil {
			w.closeAll()
			return nil, fmt.Errorf("listen for changes: %w", err)
		}
		w.events = append(w.events, s)
	}
	w.now.Store(Read()) // after listening: later changes are notified
	go w.run()
	return w, nil
}

func listen(protocol int, groups []int) (int, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(s, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err == nil {
		for _, g := range groups {
			err = errors.Join(err, unix.SetsockoptInt(s, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g))
		}
	}
	if err != nil {
		unix.Close(s)
		return -1, err
	}
	return s, nil
}

// Machine is the newest survey.
func (w *Watcher) Machine() *Machine { return w.now.Load() }

// Changed has a value after Machine has become another. Several changes may make one value.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Close ends the watch, and waits for its end.
func (w *Watcher) Close() {
	_, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-w.stopped
	w.closeAll()
}

func (w *Watcher) closeAll() {
	for _, s := range append(w.events, w.stop) {
		unix.Close(s)
	}
	w.home.Close()
}

// run stays on a thread of its own inside the namespace; the thread ends with it.
func (w *Watcher) run() {
	defer close(w.stopped)
	runtime.LockOSThread() // for good
	if err := w.enter(); err != nil {
		m := &Machine{nft: &nftRules{}}
		m.fail("this network namespace", "ip netns identify", err)
		w.publish(m)
		return
	}
	var due, rested time.Time // of the next poll; when the next survey may be made
	for {
		heard, end := w.hear(pollEvery)
		for until := time.Now().Add(settleAtMost); heard && !end && time.Now().Before(until); {
			var more bool
			if more, end = w.hear(settleTime); !more {
				break
			}
		}
		for heard && !end && time.Now().Before(rested) {
			_, end = w.hear(time.Until(rested) + time.Millisecond)
		}
		if end {
			return
		}
		if !heard {
			if time.Now().Before(due) {
				continue
			}
			var changed bool
			if changed, due = w.poll(); !changed {
				continue
			}
		}
		before, began := w.now.Load(), time.Now()
		w.publish(Read())
		took := time.Since(began)
		w.spent.Add(int64(took))
		rested = time.Now().Add(surveyShare * (took + time.Duration(before.judging.Load())))
	}
}

// poll asks for what sends no notification; due is when to ask again.
func (w *Watcher) poll() (changed bool, due time.Time) {
	began := time.Now()
	changed = w.now.Load().outdated()
	return changed, began.Add(pollShare * time.Since(began))
}

// enter moves the thread into the namespace. Outside tests it is there already, and entering takes CAP_SYS_ADMIN, even there.
func (w *Watcher) enter() error {
	here, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if home, err := w.home.Stat(); err == nil && os.SameFile(here, home) {
		return nil
	}
	return unix.Setns(int(w.home.Fd()), unix.CLONE_NEWNET)
}

func (w *Watcher) publish(m *Machine) {
	w.reads.Add(1)
	w.now.Store(m)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// hear waits for events and drains them. Lost events count as events.
func (w *Watcher) hear(wait time.Duration) (heard, end bool) {
	fds := []unix.PollFd{{Fd: int32(w.stop), Events: unix.POLLIN}}
	for _, s := range w.events {
		fds = append(fds, unix.PollFd{Fd: int32(s), Events: unix.POLLIN})
	}
	if n, err := unix.Poll(fds, int(wait/time.Millisecond)); err != nil || n == 0 {
		return false, false
	}
	b := make([]byte, os.Getpagesize())
	for _, s := range w.events {
		for {
			if _, _, err := unix.Recvfrom(s, b, unix.MSG_TRUNC); err != nil && !errors.Is(err, unix.ENOBUFS) {
				break // all are taken
			}
			heard = true
		}
	}
	return heard, fds[0].Revents != 0
}

// outdated reports whether anything without change notification differs from what was read.
func (m *Machine) outdated() bool {
	var now []*legacyTable
	for _, f := range []family{ipv4, ipv6} {
		tables, err := readLegacy(f)
		if err != nil {
			return len(m.unreadable) == 0 // unreadable as before is no change
		}
		now = append(now, tables...)
	}
	if len(now) != len(m.legacy) || readLoose() != m.loose {
		return true
	}
	if listed, err := listPrograms(); err == nil && !slices.Equal(listed, m.listed) {
		return true
	}
	if lookups, err := socketLookups(); err == nil && !slices.Equal(lookups, m.lookups) {
		return true
	}
	if virtual, err := readVirtual(); err == nil && !slices.Equal(virtual, m.virtual) {
		return true
	}
	for i, t := range now {
		o := m.legacy[i]
		if t.name != o.name || t.family != o.family || !bytes.Equal(t.entries, o.entries) {
			return true
		}
	}
	return false
}
