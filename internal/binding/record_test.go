// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var testNow = time.Unix(1800000000, 0)

func testRecord() Record {
	return Record{Role: BorderManager, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Endpoints: []Endpoint{{ServiceIFP, netip.MustParseAddrPort("192.0.2.1:4141")}},
		Key:       Key(goldenKey("bm").Public().(ed25519.PublicKey)), Serial: 1,
		NotBefore: testNow.Unix(), NotAfter: testNow.Unix() + 3600}
}

// TestEveryByteCounts flips every bit of a record: none may be accepted.
func TestEveryByteCounts(t *testing.T) {
	r, err := Sign(testRecord(), goldenKey("isp"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Raw() {
		for bit := range 8 {
			bad := bytes.Clone(r.Raw())
			bad[i] ^= 1 << bit
			if _, err := Parse(bad); err == nil {
				t.Errorf("byte %d bit %d flipped: accepted", i, bit)
			}
		}
	}
	for n := range r.Raw() {
		if _, err := Parse(r.Raw()[:n]); CodeOf(err) != Malformed {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestCheckTime(t *testing.T) {
	r, err := Sign(testRecord(), goldenKey("isp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at   time.Duration
		want Code
	}{
		{-Skew - time.Second, NotYetValid}, {-Skew, OK}, {0, OK}, {time.Hour, OK}, {time.Hour + Skew, OK},
		{time.Hour + Skew + time.Second, Expired},
	} {
		if got := CodeOf(r.CheckTime(testNow.Add(tc.at))); got != tc.want {
			t.Errorf("at %s: %s, want %s", tc.at, got, tc.want)
		}
	}
}

func TestCovers(t *testing.T) {
	r := Record{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}}
	for text, want := range map[string]bool{
		"192.0.2.0/24": true, "192.0.2.128/25": true, "192.0.2.7/32": true, "192.0.2.0/23": false, "192.0.3.0/24": false,
		"0.0.0.0/0": false, "2001:db8:1::/48": true, "2001:db8::/31": false, "::/0": false, "::ffff:192.0.2.0/120": false,
	} {
		if got := r.Covers(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSortPrefixes(t *testing.T) {
	var list []netip.Prefix
	for _, s := range []string{"2001:db8::/32", "192.0.2.128/25", "192.0.2.77/24", "10.0.0.0/8", "192.0.2.0/24", "10.1.0.0/16"} {
		list = append(list, netip.MustParsePrefix(s))
	}
	var have []string
	for _, p := range SortPrefixes(list) {
		have = append(have, p.String())
	}
	if got := strings.Join(have, " "); got != "10.0.0.0/8 192.0.2.0/24 2001:db8::/32" {
		t.Error(got)
	}
	if err := checkPrefixes(SortPrefixes(list)); err != nil {
		t.Error(err)
	}
}

func TestSupersedes(t *testing.T) {
	a, b := &Record{Serial: 1, digest: Digest{9}}, &Record{Serial: 2, digest: Digest{1}}
	c := &Record{Serial: 2, digest: Digest{2}}
	for _, tc := range []struct {
		x, y *Record
		want bool
	}{{a, b, false}, {b, a, true}, {c, b, true}, {b, c, false}, {b, b, false}} {
		if tc.x.Supersedes(tc.y) != tc.want {
			t.Errorf("%v over %v: want %v", tc.x.Serial, tc.y.Serial, tc.want)
		}
	}
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"ifp=192.0.2.1:4141": "ifp=192.0.2.1:4141", "flood=[2001:db8::1]:1": "flood=[2001:db8::1]:1", "ifp=[::ffff:192.0.2.1]:2": "ifp=192.0.2.1:2",
		"192.0.2.1:4141": "", "ifp=192.0.2.1": "", "ifp=192.0.2.1:0": "", "tcp=192.0.2.1:1": "", "ifp=host:1": "", "": "",
	} {
		e, err := ParseEndpoint(text)
		if (err == nil) != (want != "") || err == nil && e.String() != want {
			t.Errorf("%q: %v, %v", text, e, err)
		}
	}
}

func TestParseAnchors(t *testing.T) {
	key := strings.Repeat("ab", 32)
	list, err := ParseAnchors([]byte("anchors:\n  - name: rir\n    key: " + key + "\n    prefixes: [192.0.2.0/24, \"2001:db8::/32\"]\n"))
	if err != nil || len(list) != 1 || list[0].Name != "rir" || len(list[0].Prefixes) != 2 {
		t.Fatal(list, err)
	}
	entry := "anchors: [{name: a, key: " + key + ", prefixes: [192.0.2.0/24]}"
	for name, tc := range map[string]struct{ text, want string }{
		"empty":     {"", "no anchor"},
		"none":      {"anchors: []", "no anchor"},
		"short":     {"anchors: [{name: a, key: abcd, prefixes: [192.0.2.0/24]}]", "64 hex digits"},
		"not hex":   {"anchors: [{name: a, key: " + strings.Repeat("zz", 32) + ", prefixes: [192.0.2.0/24]}]", "64 hex digits"},
		"host bits": {"anchors: [{name: a, key: " + key + ", prefixes: [192.0.2.1/24]}]", "not a prefix"},
		"no prefix": {"anchors: [{name: a, key: " + key + "}]", "binds only"},
		"twice":     {entry + ", {name: b, key: " + key + ", prefixes: [10.0.0.0/8]}]", "twice"},
		"unknown":   {"anchor: []", "anchor"},
	} {
		if _, err := ParseAnchors([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v does not say %q", name, err, tc.want)
		}
	}
}

// FuzzParse: whatever decodes is, byte for byte, what its fields encode to.
func FuzzParse(f *testing.F) {
	for _, g := range golden(f) {
		raw, err := hex.DecodeString(g.Raw)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Decode(raw)
		if err != nil {
			if CodeOf(err) == OK {
				t.Fatal("refused without a code")
			}
			return
		}
		payload, err := encMode.Marshal(r.wire())
		if err != nil || !bytes.Contains(raw, payload) {
			t.Fatalf("not what its fields encode to: %v", err)
		}
		if r.VerifySignature() == nil {
			for _, p := range r.Prefixes {
				if !r.Covers(p) {
					t.Fatalf("%s is not covered by its own record", p)
				}
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	r, err := Sign(testRecord(), goldenKey("isp"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := Decode(r.Raw()); err != nil {
				b.Fatal(err)
			}
		}
	})
	many := testRecord()
	for i := range MaxPrefixes {
		many.Prefixes = append(many.Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 24))
	}
	many.Prefixes = many.Prefixes[1:]
	big, err := Sign(many, goldenKey("isp"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode-256-prefixes", func(b *testing.B) {
		for b.Loop() {
			if _, err := Decode(big.Raw()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if err := r.VerifySignature(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
