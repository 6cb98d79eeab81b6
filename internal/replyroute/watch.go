// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// pause is the minimum time between two reads: frequent changes of neighbours or routes cost no more
// than that.
const pause = 50 * time.Millisecond

// settle is the wait after a long read, as a multiple of its duration.
const settle = 10

// tooManyPause is how long tables too large to be modelled are left alone.
const tooManyPause = time.Minute

// remember is how long a neighbour stays known, as one that is not confirmed, after the kernel has lost it: because it did
// not answer in time, or to make room. Its SYNs are still answered to the MAC address that they came from, if that is the same, and
// do not take from the allowance.
const remember = 10 * time.Minute

// Watch follows the kernel's tables.
type Watch struct {
	changed chan struct{}
	tables  atomic.Bool // not only neighbours
	kernel  *kernel
	next    time.Time // earliest time of the next read of tables
	socket  *nl.NetlinkSocket
}

// NewWatch starts to follow. Without a subscription Changed never has a value, and only periodic reads remain.
func NewWatch() (*Watch, error) {
	w := &Watch{changed: make(chan struct{}, 1)}
	w.tables.Store(true)
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
		unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_IPV4_NETCONF)
	if err != nil {
		return w, err
	}
	w.socket = s
	go w.listen()
	return w, nil
}

// Changed has a value when a read is due.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Close stops following.
func (w *Watch) Close() {
	if w.socket != nil {
		w.socket.Close()
	}
}

func (w *Watch) listen() {
	for {
		list, _, err := w.socket.Receive()
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // some were lost: anything may have changed
			return
		}
		tables := err != nil
		for _, m := range list {
			if m.Header.Type != unix.RTM_NEWNEIGH && m.Header.Type != unix.RTM_DELNEIGH {
				tables = true
			}
		}
		if tables {
			w.tables.Store(true)
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
		time.Sleep(pause)
	}
}

// Look reads what has changed and flattens it for the interfaces with these indexes.
func (w *Watch) Look(ports []int) (*Model, error) {
	last, before := w.kernel, w.kernel
	began := time.Now()
	if before == nil || w.tables.Load() && began.After(w.next) {
		w.tables.Store(false) // before the read: changes during it are notified again
		before = nil
	}
	k, err := read(before)
	if err != nil {
		w.tables.Store(true)
		return nil, err
	}
	if before == nil {
		w.next = began.Add(settle * time.Since(began))
		if k.tooMany[4] || k.tooMany[6] {
			w.next = began.Add(tooManyPause)
		}
	}
	k.remembered = lost(last, k, began)
	w.kernel = k
	return build(k, ports), nil
}

// Due reports whether a read of tables was postponed.
func (w *Watch) Due() bool { return w.tables.Load() }
