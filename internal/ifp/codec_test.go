// SPDX-License-Identifier: Apache-2.0

package ifp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/keys"
)

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Written by hand from docs/ifp.md.
func TestKnownMessages(t *testing.T) {
	p := netip.MustParsePrefix
	f4 := Filter{Src: p("192.0.2.1/32"), Dst: p("198.51.100.0/24"), Action: Block, ExpiresS: 600, FloorLog2: 5, WindowS: 10}
	f6 := Filter{Src: p("2001:db8::1/128"), Dst: p("2001:db8:5::/48"), Action: BlockTS0, Direction: ToCustomer}
	for name, c := range map[string]struct{ got, want []byte }{
		"INSTALL": {AppendRequest(nil, Install, FlagProof, 0x0102030405060708, 0x1112131415161718, []Filter{f4, f6}), fromHex(t,
			"01 01 0058 01 00 0002 0102030405060708 1112131415161718"+
				"04 01 20 18 00000258 05 0a 00 00 c0000201 c6336400"+
				"06 02 80 30 00000000 00 00 01 00 20010db8000000000000000000000001 20010db8000500000000000000000000")},
		"NONCE":  {AppendNonce(nil, 7, 9), fromHex(t, "01 81 0018 00 00 0000 0000000000000007 0000000000000009")},
		"ERROR":  {AppendError(nil, 7, 9, Busy), fromHex(t, "01 84 0018 00 08 0000 0000000000000007 0000000000000009")},
		"RESULT": {AppendResult(nil, 7, 9, []Code{OK, NotAuthorised}, nil), fromHex(t, "01 82 001a 00 00 0002 0000000000000007 0000000000000009 00 04")},
		"STATISTICS": {AppendStatistics(nil, 7, 9, []Stat{{Code: OK, ExpiresS: 3, Packets: 5, Bytes: 300}}),
			fromHex(t, "01 83 0030 00 00 0001 0000000000000007 0000000000000009 00000000 00000003 0000000000000005 000000000000012c")},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s:\n got %x\nwant %x", name, c.got, c.want)
		}
	}
	message := AppendRequest(nil, Install, 0, 1, 0, []Filter{f4, f6})
	h, err := ReadHeader(message)
	if err != nil {
		t.Fatal(err)
	}
	list, bad, err := ReadFilters(nil, &h, message[HeaderLen:])
	if err != nil || len(bad) != 0 || len(list) != 2 || list[0] != f4 || list[1] != f6 {
		t.Errorf("%v %v %v", list, bad, err)
	}
}

func TestFiltersThatMeanNothing(t *testing.T) {
	good := fromHex(t, "04 01 20 18 00000258 05 0a 00 00 c0000201 c6336400")
	if _, rest, err := ReadFilter(good); err != nil || len(rest) != 0 {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte){
		"source longer than an address": func(b []byte) { b[2] = 33 },
		"destination of length 0":       func(b []byte) { b[3] = 0; copy(b[16:], []byte{0, 0, 0, 0}) },
		"bits beyond the prefix":        func(b []byte) { b[19] = 1 },
		"action 0":                      func(b []byte) { b[1] = 0 },
		"action 4":                      func(b []byte) { b[1] = 4 },
		"direction 2":                   func(b []byte) { b[10] = 2 },
		"reserved":                      func(b []byte) { b[11] = 1 },
		"floor without window":          func(b []byte) { b[9] = 0 },
		"floor too high":                func(b []byte) { b[8] = 25 },
		"expires too late":              func(b []byte) { b[4] = 1 },
	} {
		b := bytes.Clone(good)
		change(b)
		if _, rest, err := ReadFilter(b); err == nil || rest == nil {
			t.Errorf("%s: %v, rest %v", name, err, rest)
		}
	}
	for _, b := range [][]byte{nil, good[:19], append([]byte{5}, good[1:]...), append([]byte{6}, good[1:]...)} {
		if _, rest, err := ReadFilter(b); err == nil || rest != nil {
			t.Errorf("%x: %v, rest %v", b, err, rest)
		}
	}
}

func TestNonceEpochs(t *testing.T) {
	secret := keys.Secret{1, 2, 3}
	at := time.Unix(1_700_000_000, 0)
	n := NewNonces(&secret, at)
	from := netip.MustParseAddrPort("192.0.2.1:4746")
	message := AppendRequest(nil, Install, 0, 5, 0, []Filter{{Src: netip.MustParsePrefix("192.0.2.1/32"), Dst: netip.MustParsePrefix("198.51.100.1/32"), Action: Block}})
	SetNonce(message, n.Make(from, message))
	for i, want := range []bool{true, true, false, false} {
		n.Tick(at.Add(time.Duration(i) * NonceEpoch))
		if got := n.Verify(from, message); got != want {
			t.Errorf("%d epochs later: %v", i, got)
		}
	}
	n = NewNonces(&secret, at)
	if n.Verify(netip.MustParseAddrPort("192.0.2.1:4747"), message) || n.Verify(netip.MustParseAddrPort("192.0.2.2:4746"), message) {
		t.Error("another's nonce verifies")
	}
	SetNonce(message, 0)
	if n.Verify(from, message) {
		t.Error("no nonce verifies")
	}
}

// FuzzMessages: parsing any input ends, and what parses is serialized
// to the same bytes.
func FuzzMessages(f *testing.F) {
	p := netip.MustParsePrefix
	f.Add(AppendRequest(nil, Install, 1, 1, 2, []Filter{{Src: p("192.0.2.1/32"), Dst: p("198.51.100.0/24"), Action: Block, ExpiresS: 9}}))
	f.Add(AppendRequest(nil, Conditional, 0, 1, 2, []Filter{{Src: p("2001:db8::/32"), Dst: p("2001:db8:1::/48"), Action: ClearTS}}))
	granted := AppendGrant(AppendFilter(make([]byte, HeaderLen), &Filter{Src: p("192.0.2.1/32"), Dst: p("198.51.100.0/24"), Action: Block}), Grant{Rights: BySource, Owner: 7})
	head := Header{Type: Install, Flags: FlagGrants, Count: 1, Length: uint16(len(granted))}
	head.Put(granted)
	f.Add(granted)
	f.Add(AppendResult(nil, 1, 2, []Code{OK, Busy}, func([]byte) []byte { return make([]byte, ProofLen) }))
	f.Add(AppendStatistics(nil, 1, 2, []Stat{{Packets: 1}}))
	f.Add(AppendError(nil, 1, 2, StaleNonce))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ReadHeader(b)
		if err != nil {
			return
		}
		var again [HeaderLen]byte
		h.Put(again[:])
		if !bytes.Equal(again[:], b[:HeaderLen]) {
			t.Fatalf("header %x became %x", b[:HeaderLen], again)
		}
		if list, bad, err := ReadFilters(nil, &h, b[HeaderLen:]); err == nil && len(bad) == 0 {
			if out := AppendRequest(nil, h.Type, h.Flags, h.Request, h.Nonce, list); !bytes.Equal(out[HeaderLen:], b[HeaderLen:]) {
				t.Fatalf("filters %x became %x", b[HeaderLen:], out[HeaderLen:])
			}
		}
		if list, grants, bad, err := ReadGranted(nil, nil, &h, b[HeaderLen:]); err == nil && len(bad) == 0 {
			var out []byte
			for i := range list {
				out = AppendGrant(AppendFilter(out, &list[i]), grants[i])
			}
			for at := 0; at < len(out); at += GrantLen { // three bytes of each grant are ignored
				_, rest, _ := ReadFilter(out[at:])
				at = len(out) - len(rest)
				copy(out[at+1:at+4], b[HeaderLen+at+1:])
			}
			if !bytes.Equal(out, b[HeaderLen:]) {
				t.Fatalf("granted filters %x became %x", b[HeaderLen:], out)
			}
		}
		_, _, _ = ReadResult(&h, b)
		if stats, err := ReadStatistics(&h, b); err == nil && len(stats) != int(h.Count) {
			t.Fatal("statistics")
		}
	})
}
