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
// secrets: an edge that begins after a secret was replaced cannot derive the key that its peers began with. So each
// tells its key, sealed under the epoch's key, and an edge whose filter is young takes that of a peer whose
// filter is not; of two young ones the lower edge_id's counts.

const (
	syncKeyWhat  = 3<<4 | 5
	syncKeyEvery = 10 // times syncEvery
	syncKeyLabel = "key of an edge's filter:"
	syncKeyLen   = syncHeader + 8 + 8*len(plane.BloomKey{})*len(plane.BloomKey{}[0]) + 8
)

// toldKey is what an edge tells of its filter's key.
type toldKey struct {
	edge  uint16
	young bool // may still take another's
	key   plane.BloomKey
}

// young says whether this filter has been begun so recently that losing what it holds loses nothing
// that its peers do not know: for one window, or until a peer with an older one was heard.
func (p *peers) young() bool { return time.Now().Before(p.youngUntil) }

// tellKey sends this filter's key to all peers.
func (p *peers) tellKey() {
	epoch := p.epoch()
	t := toldKey{edge: uint16(p.box.Cfg.Tagged.EdgeID), young: p.young(), key: p.box.plane.EdgeSettings().BloomKey.K}
	m := encodeSyncKey(t, uint8(p.box.Cfg.Edge.FilterBits), epoch, p.box.secret.SyncKey(epoch))
	for _, to := range p.to {
		_, _ = p.conn.WriteToUDPAddrPort(m, to) // lost: it is told again
	}
}

// takeKey compares a peer's key with ours; the older filter's counts.
func (p *peers) takeKey(m []byte) {
	t, err := decodeSyncKey(m, uint8(p.box.Cfg.Edge.FilterBits), p.epoch(), p.box.secret.SyncKey)
	if err != nil {
		p.box.refusedSync.Add(1)
		return
	}
	ours, self := p.box.plane.EdgeSettings().BloomKey.K, uint16(p.box.Cfg.Tagged.EdgeID)
	switch p.foreign[t.edge] = t.key != ours; {
	case t.key == ours:
		if !t.young {
			p.youngUntil = time.Time{}
		}
	case p.young() && (!t.young || t.edge < self):
		p.adoptKey(t)
	case t.young && (!p.young() || self < t.edge):
		p.tellKey()
	case !p.warned:
		p.warned = true
		p.box.Log.Warn("a peer's filter has another key, and neither is new: what they tell each other is of no use; take one of them down and start it again",
			"edge", t.edge)
	}
}

// adoptKey restarts the filter with a peer's key.
func (p *peers) adoptKey(t toldKey) {
	own := p.box.plane.EdgeSettings()
	own.BloomKey.K = t.key
	own.LearningUntilNs = uint64(plane.MonotonicNs() + p.box.Cfg.Edge.Learning.Nanoseconds())
	if err := p.box.plane.BeginFilter(own); err != nil {
		p.box.Log.Error("taking a peer's filter key", "error", err)
		return
	}
	p.box.own = p.box.plane.EdgeSettings()
	clear(p.seen)
	clear(p.foreign)
	if !t.young {
		p.youngUntil = time.Time{}
	}
	p.box.Log.Info("the filter has the key of a peer's", "edge", t.edge)
	p.tellKey()
}

func encodeSyncKey(t toldKey, filterBits uint8, epoch uint64, key [keys.EpochKeyLen]byte) []byte {
	m := []byte{'T', 'G', syncKeyWhat, filterBits}
	m = binary.BigEndian.AppendUint16(m, t.edge)
	m = binary.BigEndian.AppendUint16(m, uint16(flag(t.young)))
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

func decodeSyncKey(m []byte, filterBits uint8, now uint64, keyOf func(uint64) [keys.EpochKeyLen]byte) (t toldKey, err error) {
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
	t.edge, t.young = binary.BigEndian.Uint16(m[4:]), binary.BigEndian.Uint16(m[6:]) != 0
	nonce, words := m[syncHeader:syncHeader+8], m[syncHeader+8:]
	for i := range t.key {
		for j := range t.key[i] {
			n := i*len(t.key[i]) + j
			t.key[i][j] = binary.LittleEndian.Uint64(words[8*n:]) ^ syncKeyPad(key, nonce, n)
		}
	}
	return t, nil
}

// syncKeyPad hides one word of a key. No message that a MAC is made of is as long as its input.
func syncKeyPad(key [keys.EpochKeyLen]byte, nonce []byte, word int) uint64 {
	in := append([]byte(syncKeyLabel), nonce...)
	return sipHash(key, binary.LittleEndian.AppendUint64(in, uint64(word)))
}
