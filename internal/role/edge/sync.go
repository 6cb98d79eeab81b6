// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/dchest/siphash"

	"tidegate/internal/config"
	"tidegate/internal/keys"
)

// Edges report to each other the positions that their filters learn; docs/split-protocol.md has the format. The edge's loop
// sends and processes; one goroutine receives, and hands over datagrams of configured peers. Neither sees a
// packet of a client.
const (
	syncPort      = 21576
	syncEvery     = 100 * time.Millisecond
	syncPositions = 320 // in one datagram: 1,300 bytes
	syncBurst     = 64  // datagrams each time
	syncHeader    = 12
	syncInbox     = 64       // datagrams received and not yet processed; more are lost; peers send them again
	syncWhat      = 3<<4 | 4 // version 1 had the positions of another hash, 2 the key of tags
)

// peers is the exchange with the other edges.
type peers struct {
	edge *edge
	conn *net.UDPConn
	to   []netip.AddrPort
	in   chan []byte // from configured peers, not yet verified
	seen []uint16    // positions of the active generation that have been sent
	gen  uint8
	key  struct { // of the epoch last used
		epoch uint64
		bytes [keys.EpochKeyLen]byte
	}

	// Of synckey.go.
	youngUntil time.Time
	warm       bool            // the filter was taken over from an earlier process
	foreign    map[uint16]bool // peers whose filter has another key
	warned     bool
	ticks      int
}

// sharedBloomKey is the filter key of all edges with one secret: the tag key
// of an epoch that is never reached.
func sharedBloomKey(s *keys.Roll) [keys.EpochKeyLen]byte { return s.FirstTagKey(^uint64(0)) }

// startPeers starts exchanging updates; nil if there are no peers.
func (b *edge) startPeers(ctx context.Context) (*peers, error) {
	if len(b.Cfg.Tagged.Peers) == 0 || b.Cfg.Edge.Protocol != config.ProtocolTagged {
		return nil, nil
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: syncPort})
	if err != nil {
		return nil, err
	}
	p := &peers{edge: b, conn: conn, seen: make([]uint16, b.plane.BloomWords()), in: make(chan []byte, syncInbox),
		foreign: map[uint16]bool{}}
	p.youngUntil = time.Now().Add(b.Cfg.Edge.FilterWindow)
	if p.warm = b.plane.Warm(); p.warm {
		p.youngUntil = time.Now().Add(max(b.Cfg.Edge.FilterWindow, warmFor))
	}
	for _, a := range b.Cfg.Tagged.Peers {
		p.to = append(p.to, netip.AddrPortFrom(a, syncPort))
	}
	go p.receive()
	go func() {
		<-ctx.Done()
		conn.Close()
	}()
	return p, nil
}

func (p *peers) epoch() uint64 { return keys.Epoch(p.edge.Opt.Now(), p.edge.Cfg.Epoch) }

// tell sends the new positions of the active generation. It runs in the edge's loop, where the
// generations rotate.
func (p *peers) tell() {
	if p.ticks%syncKeyEvery == 0 {
		p.tellKey()
	}
	p.ticks++
	if g := p.edge.plane.EdgeSettings().Generation; g != p.gen {
		p.gen = g
		clear(p.seen)
	}
	if n := p.epoch(); n != p.key.epoch || n == 0 {
		p.key.epoch, p.key.bytes = n, p.edge.secret.SyncKey(n)
	}
	var list []uint32
	sent := 0
	p.edge.plane.BloomNews(p.seen, func(position uint32) bool {
		if sent == syncBurst {
			return false
		}
		list = append(list, position)
		if len(list) == syncPositions {
			p.send(list)
			list = list[:0]
			sent++
		}
		return true
	})
	if len(list) > 0 {
		p.send(list)
	}
}

func (p *peers) send(list []uint32) {
	m := encodeSync(list, uint8(p.edge.Cfg.Edge.FilterBits), uint16(p.edge.Cfg.Tagged.EdgeID), p.key.epoch, p.key.bytes)
	for _, to := range p.to {
		_, _ = p.conn.WriteToUDPAddrPort(m, to) // if lost, the next generation sends it again
	}
}

// receive hands datagrams of configured peers to the edge's loop; nothing is derived or verified for other
// senders. It touches neither filter nor secret, which the loop may be about to rotate or release.
func (p *peers) receive() {
	buf := make([]byte, 2048)
	for {
		n, from, err := p.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !p.knows(from.Addr()) {
			continue
		}
		select {
		case p.in <- slices.Clone(buf[:n]):
		default:
		}
	}
}

// knows reports whether an address is a peer's.
func (p *peers) knows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p.to, func(to netip.AddrPort) bool { return to.Addr().Unmap().WithZone("") == a })
}

// take verifies a peer's datagram and learns from it. It runs in the edge's loop.
func (p *peers) take(m []byte) {
	if len(m) == syncKeyLen && m[2] == syncKeyWhat {
		p.takeKey(m)
		return
	}
	list, err := decodeSync(m, uint8(p.edge.Cfg.Edge.FilterBits), p.epoch(), p.edge.secret.SyncKey)
	if err != nil {
		p.edge.refusedSync.Add(1)
		return
	}
	if p.foreign[binary.BigEndian.Uint16(m[4:])] {
		return // positions of another hash
	}
	p.edge.learned.Add(uint64(p.edge.plane.BloomSet(list)))
}

func encodeSync(list []uint32, filterBits uint8, edge uint16, epoch uint64, key [keys.EpochKeyLen]byte) []byte {
	m := []byte{'T', 'G', syncWhat, filterBits}
	m = binary.BigEndian.AppendUint16(m, edge)
	m = binary.BigEndian.AppendUint16(m, uint16(len(list)))
	m = binary.BigEndian.AppendUint32(m, uint32(epoch))
	for _, p := range list {
		m = binary.LittleEndian.AppendUint32(m, p)
	}
	return binary.LittleEndian.AppendUint64(m, sipHash(key, m))
}

var (
	errSyncFormat = errors.New("not a message of another edge's filter")
	errSyncForged = errors.New("a message whose MAC or epoch is wrong")
)

// decodeSync reads a message and verifies it.
func decodeSync(m []byte, filterBits uint8, now uint64, keyOf func(uint64) [keys.EpochKeyLen]byte) ([]uint32, error) {
	if len(m) < syncHeader+8 || m[0] != 'T' || m[1] != 'G' || m[2] != syncWhat || m[3] != filterBits {
		return nil, errSyncFormat
	}
	count := int(binary.BigEndian.Uint16(m[6:]))
	if count == 0 || count > syncPositions || len(m) != syncHeader+4*count+8 {
		return nil, errSyncFormat
	}
	ahead := int32(binary.BigEndian.Uint32(m[8:]) - uint32(now))
	if ahead < -1 || ahead > 1 {
		return nil, errSyncForged
	}
	body := m[:len(m)-8]
	if sipHash(keyOf(now+uint64(int64(ahead))), body) != binary.LittleEndian.Uint64(m[len(body):]) {
		return nil, errSyncForged
	}
	list := make([]uint32, count)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(m[syncHeader+4*i:])
	}
	return list, nil
}

// sipHash is SipHash-2-4 with 64 bits of output (core/siphash.h), for messages that no packet path sees.
func sipHash(key [keys.EpochKeyLen]byte, msg []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:]), msg)
}
