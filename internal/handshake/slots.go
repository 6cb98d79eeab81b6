// SPDX-License-Identifier: Apache-2.0

// Package handshake bounds the cost of connections whose peer has not yet proven its
// identity: how many there are at once, and how many from one network. It must know nothing
// of the protocols that follow.
package handshake

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits of a listener.
const (
	Max        = 256 // handshakes at once
	MaxNetwork = 8   // from one network: an IPv4 address or an IPv6 /56
	TimeLimit  = 5 * time.Second
)

// Slots holds the connections in their handshake. If all slots are
// taken, a new connection evicts the oldest one, which is closed: an
// honest handshake takes a few round trips, and an attacker that wants to prevent one must open
// 256 connections from 32 networks in that time, repeatedly. Safe for concurrent use.
type Slots struct {
	mu       sync.Mutex
	order    list.List // of *slot, oldest first
	networks map[netip.Prefix]int
	count    Count
}

// Count is the number of connections that did not complete their handshake.
type Count struct {
	Network uint64 // refused: too many from that network
	Evicted uint64 // closed for a newer one
}

type slot struct {
	conn    net.Conn
	network netip.Prefix
}

// New makes a set of empty slots.
func New() *Slots { return &Slots{networks: map[netip.Prefix]int{}} }

// networkOf is the network that an address belongs to: whoever has one IPv6 address has many.
func networkOf(addr net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{} // not IP: all count as one network
	}
	a := at.Addr().Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 56
	}
	p, _ := a.Prefix(bits) // never fails for these
	return p
}

// Enter takes a slot for a connection; leave frees it, and must be called when
// the handshake has ended, successfully or not. False: close the connection.
func (s *Slots) Enter(conn net.Conn) (leave func(), ok bool) {
	mine := &slot{conn, networkOf(conn.RemoteAddr())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.networks[mine.network] >= MaxNetwork {
		s.count.Network++
		return nil, false
	}
	if s.order.Len() >= Max {
		oldest := s.order.Front()
		oldest.Value.(*slot).conn.Close() // its handshake fails
		s.remove(oldest)
		s.count.Evicted++
	}
	s.networks[mine.network]++
	at := s.order.PushBack(mine)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(at)
	}, true
}

// remove empties a slot, unless it is empty already.
func (s *Slots) remove(at *list.Element) {
	mine := at.Value.(*slot)
	if mine.conn == nil {
		return
	}
	s.order.Remove(at)
	mine.conn = nil
	if s.networks[mine.network]--; s.networks[mine.network] == 0 {
		delete(s.networks, mine.network)
	}
}

// InUse is the number of handshakes in progress.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}

// Count returns the counts.
func (s *Slots) Count() Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
