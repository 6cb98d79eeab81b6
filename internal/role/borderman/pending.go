// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"net/netip"
	"sync"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// pendingMax bounds the requests that wait for patrols.
const pendingMax = 1 << 16

type pendingKey struct {
	from    netip.AddrPort
	request uint64
}

// pending is a verified request whose filters are with patrols.
type pending struct {
	key     pendingKey
	nonce   uint64
	kind    ifp.Type
	flags   uint8
	proof   []byte // the filters as they came, if the result is to be signed
	asked   bool   // some patrol was asked
	mu      sync.Mutex
	waiting int // parts that patrols have not answered
	codes   []ifp.Code
	stats   []ifp.Stat
}

// Pending is the number of verified requests that wait for patrols.
func (m *Manager) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// enter records that patrols are asked; false: too many requests are under way.
func (m *Manager) enter(p *pending) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pending) >= pendingMax {
		return false
	}
	m.pending[p.key] = p
	return true
}

// patrolAnswered records one patrol's answer to a part of a request.
func (m *Manager) patrolAnswered(p *pending, which []int, codes []ifp.Code, stats []ifp.Stat) {
	if p == nil || !m.merge(p, which, codes, stats) {
		return
	}
	m.outMu.Lock()
	m.answer(p, m.out)
	m.outMu.Unlock()
}

// sendAnswers sends the answers that patrolAnswered has collected.
func (m *Manager) sendAnswers() {
	m.outMu.Lock()
	m.out.Flush()
	m.outMu.Unlock()
}

// merge adds a part's answer; true when it was the last. A filter that several
// patrols have is OK only if it is OK at all of them; its counters add up.
func (m *Manager) merge(p *pending, which []int, codes []ifp.Code, stats []ifp.Stat) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, i := range which {
		switch {
		case stats != nil:
			p.mergeStat(i, stats[n])
		case codes != nil && p.codes[i] == ifp.OK:
			if p.codes[i] = codes[n]; codes[n] == ifp.TooManyShapes || codes[n] == ifp.OverShare {
				m.Count.NoPlace.Add(1)
			}
		}
	}
	p.waiting--
	return p.waiting == 0
}

func (p *pending) mergeStat(i int, s ifp.Stat) {
	to := &p.stats[i]
	if s.Code != ifp.OK {
		if to.Packets == 0 && to.ExpiresS == 0 {
			to.Code = s.Code
		}
		return
	}
	to.Code = ifp.OK
	to.Packets, to.Bytes, to.ExpiresS = to.Packets+s.Packets, to.Bytes+s.Bytes, max(to.ExpiresS, s.ExpiresS)
}

// answer completes a request. Its answer is stored before it is removed from the pending requests; if
// nothing was done, as for strangers, nothing is stored.
func (m *Manager) answer(p *pending, out *upstream.Outbox) {
	message := m.message(p)
	if p.kind != ifp.Stats && p.asked {
		m.answers.put(p.nonce, p.key.from, p.key.request, message, m.clock())
	}
	m.mu.Lock()
	delete(m.pending, p.key)
	m.mu.Unlock()
	m.Count.Answered.Add(1)
	out.Add(p.key.from, func(b []byte) []byte { return append(b, message...) })
}

// message is the answer to a request whose patrols have all answered.
func (m *Manager) message(p *pending) []byte {
	if p.kind == ifp.Stats {
		for i, c := range p.codes {
			if c != ifp.OK {
				p.stats[i].Code = c
			}
		}
		return ifp.AppendStatistics(nil, p.key.request, p.nonce, p.stats)
	}
	if p.proof == nil {
		return ifp.AppendResult(nil, p.key.request, p.nonce, p.codes, nil)
	}
	m.Count.Signed.Add(1)
	return ifp.AppendResult(nil, p.key.request, p.nonce, p.codes,
		func(result []byte) []byte { return m.opt.Identity.Sign(ifp.ProofInput(result, p.proof)) })
}
