// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"net/netip"
	"sync"
	"time"

	"tidegate/internal/ifp"
)

// answered remembers the answers to requests for as long as their nonces are good, so that a request has its
// effect once: repeating it, whether by a filter manager that did not get the answer or by an observer,
// yields the same bytes. A nonce stands for exactly one message of one sender, so it is the key.
type answered struct {
	mu     sync.Mutex
	by     map[uint64]answer
	order  []uint64 // nonces, oldest first, from head
	head   int
	forgot uint64 // evicted before they expired, for lack of room
}

type answer struct {
	from    netip.AddrPort
	request uint64
	at      time.Time
	message []byte
}

const (
	// answeredFor is how long a nonce verifies at most.
	answeredFor = 2 * ifp.NonceEpoch
	// answeredMax bounds the memory (less than 100 MB). Beyond it the oldest is evicted and
	// counted; a replay of that request would be executed again.
	answeredMax = 1 << 18
)

func newAnswered() *answered { return &answered{by: map[uint64]answer{}} }

// put remembers an answer.
func (a *answered) put(nonce uint64, from netip.AddrPort, request uint64, message []byte, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.by) >= answeredMax {
		a.drop()
		a.forgot++
	}
	if _, there := a.by[nonce]; there {
		return // two messages with one nonce: the first keeps its place
	}
	a.by[nonce] = answer{from, request, now, message}
	a.order = append(a.order, nonce)
}

// expire forgets answers to requests whose nonces have expired.
func (a *answered) expire(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.head < len(a.order) && now.Sub(a.by[a.order[a.head]].at) >= answeredFor {
		a.drop()
	}
}

func (a *answered) drop() {
	delete(a.by, a.order[a.head])
	if a.head++; a.head > 1024 && a.head > len(a.order)/2 {
		a.order, a.head = append(a.order[:0], a.order[a.head:]...), 0
	}
}

// find returns the answer to a request that was answered before.
func (a *answered) find(nonce uint64, from netip.AddrPort, request uint64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x, there := a.by[nonce]
	if !there || x.from != from || x.request != request {
		return nil, false
	}
	return x.message, true
}

// Forgot is how many answers were evicted before they expired.
func (a *answered) Forgot() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forgot
}
