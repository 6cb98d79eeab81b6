// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// Edges with peers must hash flows alike for as long as their filters live, and filters outlive
// secrets: an edge started after a secret was replaced cannot derive the key that its peers started with. So each
// sends its key, sealed under the epoch's key, and an edge whose filter is young takes that of a peer whose
// filter is not; of two young ones the lower edge_id's wins. An edge that has taken its filter over from an
// earlier process, which may have had no peers and so a key of its own, also takes that of a settled peer.

const (
	syncKeyWhat  = 3<<4 | 5
	syncKeyEvery = 10 // times syncEvery
	syncKeyLabel = "key of an edge's filter:"
	syncKeyLen   = syncHeader + 8 + 8*len(plane.BloomKey{})*len(plane.BloomKey{}[0]) + 8
)

// peerKey is an edge's message about its filter's key.
type peerKey struct {
	edge uint16
	age  filterAge
	key  plane.BloomKey
}

// filterAge determines whose key a filter takes. The numbers go over the wire.
type filterAge uint16

const (
	ageSettled filterAge = iota // takes no other key
	ageYoung                    // so recent that losing its content loses nothing that its peers do not have
	ageWarm                     // taken over at a start: its content counts, but less than a settled peer's key
)

// warmFor is how long an edge that has taken its filter over waits for a settled peer, at least.
const warmFor = 10 * time.Second

// age is not settled for one window, or until a settled peer was heard from.
func (p *peers) age() filterAge {
	switch {
	case !time.Now().Before(p.youngUntil):
		return ageSettled
	case p.warm:
		return ageWarm
	}
	return ageYoung
}

// yields reports whether an edge whose filter has this age takes the other's key. Of two that are not both settled
// exactly one does.
func (a filterAge) yields(self uint16, other filterAge, edge uint16) bool {
	switch a {
	case ageSettled:
		return false
	case other:
		return edge < self
	}
	return other == ageSettled || a == ageYoung
}

// tellKey sends this filter's key to all peers.
func (p *peers) tellKey() {
	epoch := p.epoch()
	t := peerKey{edge: uint16(p.edge.Cfg.Tagged.EdgeID), age: p.age(), key: p.edge.plane.EdgeSettings().BloomKey.K}
	m := encodeSyncKey(t, uint8(p.edge.Cfg.Edge.FilterBits), epoch, p.edge.secret.SyncKey(epoch))
	for _, to := range p.to {
		_, _ = p.conn.WriteToUDPAddrPort(m, to) // lost: it is sent again
	}
}

// takeKey compares a peer's key with ours; the older filter's wins.
func (p *peers) takeKey(m []byte) {
	t, err := decodeSyncKey(m, uint8(p.edge.Cfg.Edge.FilterBits), p.epoch(), p.edge.secret.SyncKey)
	if err != nil {
		p.edge.refusedSync.Add(1)
		return
	}
	ours, self := p.edge.plane.EdgeSettings().BloomKey.K, uint16(p.edge.Cfg.Tagged.EdgeID)
	switch p.foreign[t.edge] = t.key != ours; {
	case t.key == ours:
		if t.age == ageSettled {
			p.youngUntil = time.Time{}
		}
	case p.age().yields(self, t.age, t.edge):
		p.adoptKey(t)
	case t.age.yields(t.edge, p.age(), self):
		p.tellKey()
	case !p.warned:
		p.warned = true
		p.edge.Log.Warn("a peer's filter has a different key, and neither has just started: their updates are useless to each other; restart one of them",
			"edge", t.edge)
	}
}

// adoptKey restarts the filter with a peer's key. Connections in the old filter pass meanwhile, and are learned again.
func (p *peers) adoptKey(t peerKey) {
	own := p.edge.plane.EdgeSettings()
	own.BloomKey.K = t.key
	least := time.Duration(0)
	if p.warm {
		least = p.edge.Cfg.Edge.FilterWindow
	}
	p.edge.learns.begin(least)
	own.LearningUntilNs = p.edge.learns.until(p.edge.Cfg.Edge.Learning, 0)
	if err := p.edge.plane.BeginFilter(own); err != nil {
		p.edge.Log.Error("cannot adopt a peer's filter key", "error", err)
		return
	}
	p.edge.own = p.edge.plane.EdgeSettings()
	clear(p.seen)
	clear(p.foreign)
	p.warm = false
	if t.age == ageSettled {
		p.youngUntil = time.Time{}
	}
	p.edge.Log.Info("the filter now uses a peer's key", "edge", t.edge)
	p.tellKey()
}

func encodeSyncKey(t peerKey, filterBits uint8, epoch uint64, key [keys.EpochKeyLen]byte) []byte {
	m := []byte{'T', 'G', syncKeyWhat, filterBits}
	m = binary.BigEndian.AppendUint16(m, t.edge)
	m = binary.BigEndian.AppendUint16(m, uint16(t.age))
	m = binary.BigEndian.AppendUint32(m, uint32(epoch))
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails (crypto/rand)
	m = append(m, nonce[:]...)
	for i := range t.key {
		for j, word := range t.key[i] {
			m = binary.LittleEndian.AppendUint64(m, word^syncKeyPad(key, nonce[:], i*len(t.key[i])+j))
		}
	}
	return binary.LittleEndian.AppendUint64(m, sipHash(key, m))
}

func decodeSyncKey(m []byte, filterBits uint8, now uint64, keyOf func(uint64) [keys.EpochKeyLen]byte) (t peerKey, err error) {
	if len(m) != syncKeyLen || m[0] != 'T' || m[1] != 'G' || m[2] != syncKeyWhat || m[3] != filterBits {
		return t, errSyncFormat
	}
	ahead := int32(binary.BigEndian.Uint32(m[8:]) - uint32(now))
	if ahead < -1 || ahead > 1 {
		return t, errSyncForged
	}
	key, body := keyOf(now+uint64(int64(ahead))), m[:len(m)-8]
	if sipHash(key, body) != binary.LittleEndian.Uint64(m[len(body):]) {
		return t, errSyncForged
	}
	t.edge, t.age = binary.BigEndian.Uint16(m[4:]), filterAge(binary.BigEndian.Uint16(m[6:]))
	nonce, words := m[syncHeader:syncHeader+8], m[syncHeader+8:]
	for i := range t.key {
		for j := range t.key[i] {
			n := i*len(t.key[i]) + j
			t.key[i][j] = binary.LittleEndian.Uint64(words[8*n:]) ^ syncKeyPad(key, nonce, n)
		}
	}
	return t, nil
}

// syncKeyPad hides one word of a key. No message under a MAC is as long as its input.
func syncKeyPad(key [keys.EpochKeyLen]byte, nonce []byte, word int) uint64 {
	in := append([]byte(syncKeyLabel), nonce...)
	return sipHash(key, binary.LittleEndian.AppendUint64(in, uint64(word)))
}
