// SPDX-License-Identifier: Apache-2.0

// Package sourcelist has allow and deny lists: it reads files of prefixes, and makes of entries the table by which the packet path
// finds the one that decides (core/source_list.h). It knows no maps, no clock and no role.
package sourcelist

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Verdict is what an entry says of its sources. The numbers are those of the table.
type Verdict uint8

// Verdicts.
const (
	None Verdict = iota
	Allow
	Deny
)

func (v Verdict) String() string { return [...]string{"none", "allow", "deny"}[v] }

// MarshalText writes the word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the word.
func (v *Verdict) UnmarshalText(text []byte) error {
	switch string(text) {
	case "allow":
		*v = Allow
	case "deny":
		*v = Deny
	default:
		return fmt.Errorf("%q: want allow or deny", text)
	}
	return nil
}

// MaxEntries is how many entries all lists of an instance may have together.
const MaxEntries = 1 << 21

// Entry is one prefix.
type Entry struct {
	addr    [4]uint32 // host order; IPv4: the first word
	bits    uint8
	ipv6    bool
	Verdict Verdict
	Source  uint8  // which of the lists it stands in, as the caller numbers them
	Line    uint32 // of that list; 0: it is no file
	Until   int64  // when it expires, seconds since 1970; 0: never
	Comment string
}

// NewEntry is an entry of a prefix; what stands behind the prefix's length is ignored.
func NewEntry(p netip.Prefix, v Verdict) Entry {
	e := Entry{bits: uint8(p.Bits()), ipv6: !p.Addr().Is4(), Verdict: v}
	e.addr = words(p.Masked().Addr())
	return e
}

// Prefix is the entry's prefix.
func (e *Entry) Prefix() netip.Prefix {
	var raw [16]byte
	for i, w := range e.addr {
		binary.BigEndian.PutUint32(raw[4*i:], w)
	}
	if e.ipv6 {
		return netip.PrefixFrom(netip.AddrFrom16(raw), int(e.bits))
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), int(e.bits))
}

// String is the entry as a line of a list.
func (e *Entry) String() string {
	text := e.Prefix().String()
	if e.Until != 0 {
		text += " until " + e.Expires().UTC().Format(time.RFC3339)
	}
	if e.Comment != "" {
		text += " # " + e.Comment
	}
	return text
}

// Expires is when; the zero time: never.
func (e *Entry) Expires() time.Time {
	if e.Until == 0 {
		return time.Time{}
	}
	return time.Unix(e.Until, 0)
}

// words are an address as the table compares it. Zones are not looked at.
func words(a netip.Addr) (w [4]uint32) {
	if a.Is4() {
		raw := a.As4()
		return [4]uint32{binary.BigEndian.Uint32(raw[:])}
	}
	raw := a.As16()
	for i := range w {
		w[i] = binary.BigEndian.Uint32(raw[4*i:])
	}
	return w
}

// order sorts IPv4 first, then by address, the shorter prefix first, and of equal prefixes that which decides: Deny, then that
// which lasts longer, then the list that is named first.
func order(a, b *Entry) int {
	if a.ipv6 != b.ipv6 {
		if b.ipv6 {
			return -1
		}
		return 1
	}
	for i := range a.addr {
		if c := cmp.Compare(a.addr[i], b.addr[i]); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(a.bits, b.bits); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Verdict, a.Verdict); c != 0 {
		return c
	}
	if c := cmp.Compare(uint64(b.Until-1), uint64(a.Until-1)); c != 0 { // 0 is the longest
		return c
	}
	return cmp.Compare(a.Source, b.Source)
}

func same(a, b *Entry) bool { return a.ipv6 == b.ipv6 && a.bits == b.bits && a.addr == b.addr }
