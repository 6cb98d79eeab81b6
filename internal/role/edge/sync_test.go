// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/keys"
)

// The list of the paper's reference implementation, as in core/test/known_answers.h.
func TestSipHash(t *testing.T) {
	var key [keys.EpochKeyLen]byte
	var msg []byte
	for i := range key {
		key[i] = byte(i)
	}
	want := map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 15: 0xa129ca6149be45e5}
	for i := range 16 {
		if w, ok := want[i]; ok && sipHash(key, msg) != w {
			t.Errorf("%d bytes: %#x, want %#x", i, sipHash(key, msg), w)
		}
		msg = append(msg, byte(i))
	}
}

func TestSync(t *testing.T) {
	secret := keys.Secret{1, 2, 3}
	list := []uint32{0, 7, 1 << 20, 3<<20 - 1}
	const now = 1<<32 + 5
	for _, epoch := range []uint64{now - 1, now, now + 1} {
		got, err := decodeSync(encodeSync(list, 20, 9, epoch, secret.SyncKey(epoch)), 20, now, secret.SyncKey)
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("epoch %d: %v, %v", epoch, got, err)
		}
	}
	good := encodeSync(list, 20, 9, now, secret.SyncKey(now))
	for i := range 8 * len(good) {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := decodeSync(bad, 20, now, secret.SyncKey); err == nil {
			t.Fatalf("bit %d changed, and %v was believed", i, got)
		}
	}
	for i := range good {
		if _, err := decodeSync(good[:i], 20, now, secret.SyncKey); err == nil {
			t.Fatalf("cut to %d bytes, and believed", i)
		}
	}
	for _, epoch := range []uint64{now - 2, now + 2} {
		if _, err := decodeSync(encodeSync(list, 20, 9, epoch, secret.SyncKey(epoch)), 20, now, secret.SyncKey); err == nil {
			t.Errorf("epoch %d was believed", epoch)
		}
	}
	if _, err := decodeSync(good, 21, now, secret.SyncKey); err == nil {
		t.Error("a filter of another size was believed")
	}
	many := make([]uint32, syncPositions+1)
	if _, err := decodeSync(encodeSync(many, 20, 9, now, secret.SyncKey(now)), 20, now, secret.SyncKey); err == nil {
		t.Error("more positions than a message may have were believed")
	}
	binary.BigEndian.PutUint16(good[6:], 0)
	if _, err := decodeSync(good, 20, now, secret.SyncKey); err == nil {
		t.Error("a message of nothing was believed")
	}
}

// A key arrives as it was sent; a message that was changed or is of another epoch is rejected, and the
// wire format does not reveal the key.
func TestSyncKey(t *testing.T) {
	secret := keys.Secret{1, 2, 3}
	const now = 1<<32 + 5
	want := peerKey{edge: 9, age: ageWarm}
	for i := range want.key {
		for j := range want.key[i] {
			want.key[i][j] = uint64(i*100+j) | 1<<60
		}
	}
	for _, epoch := range []uint64{now - 1, now, now + 1} {
		if got, err := decodeSyncKey(encodeSyncKey(want, 20, epoch, secret.SyncKey(epoch)), 20, now, secret.SyncKey); err != nil || got != want {
			t.Errorf("epoch %d: %v, %v", epoch, got, err)
		}
	}
	good := encodeSyncKey(want, 20, now, secret.SyncKey(now))
	if len(good) != syncKeyLen || bytes.Contains(good, binary.LittleEndian.AppendUint64(nil, want.key[1][1])) {
		t.Errorf("%d bytes: %x", len(good), good)
	}
	for i := range 8 * len(good) {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decodeSyncKey(bad, 20, now, secret.SyncKey); err == nil {
			t.Fatalf("bit %d changed, and it was believed", i)
		}
	}
	for _, epoch := range []uint64{now - 2, now + 2} {
		if _, err := decodeSyncKey(encodeSyncKey(want, 20, epoch, secret.SyncKey(epoch)), 20, now, secret.SyncKey); err == nil {
			t.Errorf("epoch %d was believed", epoch)
		}
	}
}

// Of two edges whose filters have different keys exactly one takes the other's, unless both are settled; one that
// got its peers by a restart takes the key of the existing ones.
func TestSyncKeyYields(t *testing.T) {
	ages := []filterAge{ageSettled, ageYoung, ageWarm}
	for _, a := range ages {
		for _, b := range ages {
			for _, ids := range [][2]uint16{{1, 2}, {2, 1}} {
				one, other := a.yields(ids[0], b, ids[1]), b.yields(ids[1], a, ids[0])
				if both := a == ageSettled && b == ageSettled; one && other || both == (one || other) {
					t.Errorf("edge %d of age %d yields: %v; edge %d of age %d: %v", ids[0], a, one, ids[1], b, other)
				}
			}
		}
	}
	if !ageWarm.yields(1, ageSettled, 2) || ageWarm.yields(2, ageYoung, 1) {
		t.Error("a filter that was taken over must yield to a settled one, and not to a young one")
	}
}

// Only datagrams of configured peers are handed over for verification.
func TestSyncOfStrangers(t *testing.T) {
	local := func(a string) *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(a)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	p := &peers{conn: local("127.0.0.1"), to: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.3:21576")}, in: make(chan []byte, 4)}
	go p.receive()
	to := p.conn.LocalAddr()
	for _, from := range []struct{ address, text string }{{"127.0.0.2", "stranger"}, {"127.0.0.3", "peer"}} {
		if _, err := local(from.address).WriteTo([]byte(from.text), to); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case m := <-p.in:
		if string(m) != "peer" { // sent second: the stranger's came before it
			t.Errorf("%q was taken", m)
		}
	case <-time.After(10 * time.Second):
		t.Error("the peer was not heard")
	}
}
