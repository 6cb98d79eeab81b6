package edge

import (
	"encoding/binary"
	"slices"
	"testing"

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
		got, err := decodeSync(encodeSync(list, 20, 9, epoch, secret.TagKey(epoch)), 20, now, secret.TagKey)
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("epoch %d: %v, %v", epoch, got, err)
		}
	}
	good := encodeSync(list, 20, 9, now, secret.TagKey(now))
	for i := range 8 * len(good) {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := decodeSync(bad, 20, now, secret.TagKey); err == nil {
			t.Fatalf("bit %d changed, and %v was believed", i, got)
		}
	}
	for i := range good {
		if _, err := decodeSync(good[:i], 20, now, secret.TagKey); err == nil {
			t.Fatalf("cut to %d bytes, and believed", i)
		}
	}
	for _, epoch := range []uint64{now - 2, now + 2} {
		if _, err := decodeSync(encodeSync(list, 20, 9, epoch, secret.TagKey(epoch)), 20, now, secret.TagKey); err == nil {
			t.Errorf("epoch %d was believed", epoch)
		}
	}
	if _, err := decodeSync(good, 21, now, secret.TagKey); err == nil {
		t.Error("a filter of another size was believed")
	}
	many := make([]uint32, syncPositions+1)
	if _, err := decodeSync(encodeSync(many, 20, 9, now, secret.TagKey(now)), 20, now, secret.TagKey); err == nil {
		t.Error("more positions than a message may have were believed")
	}
	binary.BigEndian.PutUint16(good[6:], 0)
	if _, err := decodeSync(good, 20, now, secret.TagKey); err == nil {
		t.Error("a message of nothing was believed")
	}
}
