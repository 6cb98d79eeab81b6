// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"sync/atomic"

	"tidegate/internal/plane/edgebpf"
)

// TaggedSettings are the edge's part of the protocol `tagged`.
type TaggedSettings = edgebpf.EdgeXdpTgTaggedSettings

// tagEpoch is a slot of the key ring for tags and confirmations, at edge and server alike.
type tagEpoch = edgebpf.EdgeXdpTgTagEpoch

// SetTagged selects the protocol; with Edge 0 it is `plain`.
func (e *Edge) SetTagged(s TaggedSettings) error {
	if err := e.maps[VarTagged].Put(uint32(0), s); err != nil {
		return fmt.Errorf("tagged: %w", err)
	}
	return nil
}

// PutTagKeys loads the tag and confirmation keys of one epoch, as PutKey does.
func (e *Edge) PutTagKeys(epoch uint64, tag, confirm [16]byte) error {
	return putTagKeys(e.maps[edgebpf.EdgeXdpMapTgTagKeys], e.keySlots, epoch, tag, confirm)
}

// BloomNews compares the active generation with the caller's copy in seen (a bit for each
// position), calls tell with each new position and records it in seen; it stops when
// tell returns false. Positions are numbered across the partitions.
func (e *Edge) BloomNews(seen []uint16, tell func(position uint32) bool) {
	g := e.own.Generation
	for i := range partitionWords(e.bits) {
		w := atomic.LoadUint64(&e.words[i]) >> g & 0x1111111111111111
		if w == 0 {
			continue
		}
		var now uint16
		for p := range 16 {
			now |= uint16(w>>(p*BloomGenerations)&1) << p
		}
		for news := now &^ seen[i]; news != 0; news &= news - 1 {
			p := trailing(news)
			if !tell(uint32(i*16 + p)) {
				return
			}
			seen[i] |= 1 << p
		}
	}
}

func trailing(v uint16) (n int) {
	for ; v&1 == 0; v >>= 1 {
		n++
	}
	return n
}

// BloomSet sets positions of the active generation; it returns how many of them are
// valid.
func (e *Edge) BloomSet(positions []uint32) (good int) {
	for _, p := range positions {
		if int(p/16) >= partitionWords(e.bits) {
			continue
		}
		setPosition(e.words, e.bits, p, uint32(e.own.Generation))
		good++
	}
	return good
}

// BloomWords is the number of the partitions' words, each of 16 positions.
func (e *Edge) BloomWords() int { return partitionWords(e.bits) }
