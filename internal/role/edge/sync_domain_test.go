// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/keys"
)

// The input of a tag's MAC may be, byte for byte, a message to another edge: an edge tags, as a
// probe, any segment whose source address begins with those bytes. Its MAC is not valid for a message,
// nor is a confirmation's, nor either one's in any other form.
func TestTagIsNoSync(t *testing.T) {
	secret := keys.Secret{1, 2, 3}
	const now, bits, positions = 7, 20, 11
	// Source and destination of IPv6, ports, numbers, TSecr; then the tag's words.
	m := []byte{'T', 'G', syncWhat, bits, 0, 9}
	m = binary.BigEndian.AppendUint16(m, positions)
	m = binary.BigEndian.AppendUint32(m, now)
	for len(m) < 48 {
		m = append(m, byte(len(m)))
	}
	m = append(m, 1<<4|2, 7<<4, 0, 9, 0, 0, 0, now)
	for name, key := range map[string][keys.EpochKeyLen]byte{
		"tag": secret.TagKey(now), "confirmation": secret.ConfirmKey(now), "cookie": secret.EpochKey(now),
	} {
		signed := binary.LittleEndian.AppendUint64(slices.Clone(m), sipHash(key, m))
		if list, err := decodeSync(signed, bits, now, secret.SyncKey); err == nil {
			t.Errorf("a %s was believed to be the message of another edge; positions %v", name, list)
		}
	}
}

// Messages match those of an independent writer, core/test/tag_answers.py.
func TestSyncKnownAnswers(t *testing.T) {
	var secret keys.Secret
	for i := range secret {
		secret[i] = byte(i)
	}
	text, err := os.ReadFile("testdata/sync_answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch f[0] {
		case "filter":
			if key := secret.TagKey(^uint64(0)); hex.EncodeToString(key[:]) != f[1] {
				t.Errorf("the key of the filter's hash is %x, want %s", key, f[1])
			}
		case "sync":
			messages++
			knownSync(t, &secret, f[1:])
		}
	}
	if messages < 20 {
		t.Errorf("only %d messages", messages)
	}
}

func knownSync(t *testing.T, secret *keys.Secret, f []string) {
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bits, edge, epoch := uint8(number(f[0])), uint16(number(f[1])), number(f[2])
	var list []uint32
	for s := range strings.SplitSeq(f[3], ",") {
		list = append(list, uint32(number(s)))
	}
	m := encodeSync(list, bits, edge, epoch, secret.SyncKey(epoch))
	if hex.EncodeToString(m) != f[4] {
		t.Errorf("edge %d, epoch %d, %d positions: %x, want %s", edge, epoch, len(list), m, f[4])
	}
	if got, err := decodeSync(m, bits, epoch, secret.SyncKey); err != nil || !slices.Equal(got, list) {
		t.Errorf("edge %d, epoch %d: read as %v, %v", edge, epoch, got, err)
	}
}
