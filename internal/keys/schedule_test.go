// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20"
)

// counting returns the secret 00 01 02 … 1f.
func counting() *Secret {
	s := new(Secret)
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// TestChaCha20Block compares the cipher with the block function vector of RFC 8439 section 2.3.2.
func TestChaCha20Block(t *testing.T) {
	nonce, _ := hex.DecodeString("000000090000004a00000000")
	key := counting()
	c, err := chacha20.NewUnauthenticatedCipher(key[:], nonce)
	if err != nil {
		t.Fatal(err)
	}
	c.SetCounter(1)
	var block [64]byte
	c.XORKeyStream(block[:], block[:])
	const want = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e" +
		"d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
	if got := hex.EncodeToString(block[:]); got != want {
		t.Errorf("block\n got %s\nwant %s", got, want)
	}
}

// TestEpochKeyKnownAnswers fixes the key schedule; core/ must give the same bytes.
// The answers were made with `openssl enc -chacha20`, not with this code.
func TestEpochKeyKnownAnswers(t *testing.T) {
	for _, tc := range []struct {
		n    uint64
		want string
	}{
		{0, "553dadedd45640952d26bc35c7bfa46c"},
		{1, "b7597cfb37f1d67dd562622f4dafdb7f"},
		{1<<32 + 5, "7cb4e3e9828ceb18da2637a879ed396d"},
	} {
		key := counting().EpochKey(tc.n)
		got := hex.EncodeToString(key[:])
		t.Logf("secret=000102..1f n=%d key=%s", tc.n, got)
		if got != tc.want {
			t.Errorf("EpochKey(%d) = %s, want %s", tc.n, got, tc.want)
		}
	}
}

// TestKeysOfEachKind fixes the labels: no two kinds of message have a key in common. Made as above.
func TestKeysOfEachKind(t *testing.T) {
	s := counting()
	for _, tc := range []struct {
		name string
		key  func(uint64) [EpochKeyLen]byte
		n    uint64
		want string
	}{
		{"tag", s.TagKey, 0, "de44e21d276f513b1677e9d0c96c35ea"},
		{"tag", s.TagKey, 1<<32 + 5, "555cdcb005a2cc2b316eb774af7b4616"},
		{"confirm", s.ConfirmKey, 0, "ee1240a237dc4add2e55ae67b3ae7277"},
		{"confirm", s.ConfirmKey, 1<<32 + 5, "c63c4e0589905de9039a2c78fecdb844"},
		{"sync", s.SyncKey, 0, "355d292416b8eff7b6979c7324b8149e"},
		{"sync", s.SyncKey, 1<<32 + 5, "ebaa2cf5b01d0295a00e9fb4cdd59eea"},
	} {
		key := tc.key(tc.n)
		if got := hex.EncodeToString(key[:]); got != tc.want {
			t.Errorf("%s key of epoch %d = %s, want %s", tc.name, tc.n, got, tc.want)
		}
	}
	half := s.SmartKey(7)
	if got := hex.EncodeToString(half[:]); got != "1116b9c0a5a03fe4" {
		t.Errorf("SmartKey(7) = %s", got)
	}
}

func TestEpoch(t *testing.T) {
	const length = 8 * time.Second
	for _, tc := range []struct {
		at   time.Time
		want uint64
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(7, 999_999_999), 0},
		{time.Unix(8, 0), 1},
		{time.Unix(1_700_000_000, 1), 212_500_000},
		{time.Unix(-1, 0), 0},
	} {
		if got := Epoch(tc.at, length); got != tc.want {
			t.Errorf("Epoch(%v) = %d, want %d", tc.at, got, tc.want)
		}
	}
	if got := EpochStart(212_500_000, length); !got.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("EpochStart = %v", got)
	}
}

func TestEpochs(t *testing.T) {
	const length = time.Second
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	for _, tc := range []struct {
		name    string
		now     time.Time
		horizon time.Duration
		want    []uint64
	}{
		{"three behind, two ahead", at(10_000), 2 * time.Second, []uint64{7, 8, 9, 10, 11, 12}},
		{"horizon reaches into a further epoch", at(10_500), 1500 * time.Millisecond, []uint64{7, 8, 9, 10, 11, 12}},
		{"no horizon", at(10_999), 0, []uint64{7, 8, 9, 10}},
		{"near the beginning of time", at(1_500), time.Second, []uint64{0, 1, 2}},
		{"negative horizon", at(10_000), -time.Hour, []uint64{7, 8, 9, 10}},
	} {
		if got := Epochs(tc.now, length, tc.horizon); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	if got := len(Epochs(time.Unix(1_700_000_000, 0), 8*time.Second, 2*time.Hour)); got != 3+1+900 {
		t.Errorf("default ring has %d epochs, want 904", got)
	}
}

func TestSecretNeverPrinted(t *testing.T) {
	s := counting()
	for _, format := range []string{"%v", "%+v", "%#v", "%x", "%X", "%d", "%s", "%q"} {
		for _, out := range []string{fmt.Sprintf(format, s), fmt.Sprintf(format, *s)} {
			if strings.Contains(strings.ToLower(out), "1e1f") || strings.Contains(out, "30 31") ||
				strings.Contains(out, "0x1f") {
				t.Errorf("%s prints the secret: %s", format, out)
			}
		}
	}
	s.Zero()
	if *s != (Secret{}) {
		t.Error("Zero left bytes behind")
	}
}

// A ring of Slots holds every key loaded at the same time, for any horizon, with one to spare
// while the next is loaded.
func TestSlots(t *testing.T) {
	for _, length := range []time.Duration{time.Second, 8 * time.Second, 64 * time.Second} {
		for _, horizon := range []time.Duration{0, length / 3, length, 5 * time.Minute, 2*time.Hour + length/2} {
			most := 0
			for step := range 16 {
				now := EpochStart(1_000_000, length).Add(length * time.Duration(step) / 16)
				most = max(most, len(Epochs(now, length, horizon)))
			}
			if slots := Slots(length, horizon); slots < most+1 || slots > most+3 {
				t.Errorf("epochs of %v, horizon %v: %d keys at once, %d slots", length, horizon, most, slots)
			}
		}
	}
}
