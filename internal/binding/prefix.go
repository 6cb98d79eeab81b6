// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// RFC 9164: tag 52 is IPv4, tag 54 IPv6. A prefix is [length, address without
// its trailing zero bytes], an address is the plain byte string.
const (
	tagIPv4 = 52
	tagIPv6 = 54
)

// Written out by hand, because a record may hold hundreds. Reading is lenient
// where it may be: Decode compares with the canonical encoding.

type cborPrefix netip.Prefix

func (p cborPrefix) MarshalCBOR() ([]byte, error) {
	prefix := netip.Prefix(p)
	addr := prefix.Addr().AsSlice()
	for len(addr) > 0 && addr[len(addr)-1] == 0 {
		addr = addr[:len(addr)-1]
	}
	b := append(make([]byte, 0, 24), tag8, familyTag(prefix.Addr()), array2)
	if bits := byte(prefix.Bits()); bits < 24 {
		b = append(b, bits)
	} else {
		b = append(b, uint8Head, bits)
	}
	return append(append(b, bytes0|byte(len(addr))), addr...), nil
}

func (p *cborPrefix) UnmarshalCBOR(data []byte) error {
	size, rest, err := readFamily(data)
	if err != nil {
		return err
	}
	if len(rest) < 3 || rest[0] != array2 {
		return errors.New("a prefix is [length, address]")
	}
	bits := rest[1]
	rest = rest[2:]
	if bits == uint8Head {
		bits, rest = rest[0], rest[1:]
	}
	n := len(rest) - 1
	if n < 0 || n > size || rest[0] != bytes0|byte(n) || int(bits) > 8*size {
		return fmt.Errorf("a prefix has at most %d bytes and %d bits", size, 8*size)
	}
	var full [16]byte
	copy(full[:], rest[1:])
	addr, _ := netip.AddrFromSlice(full[:size])
	*p = cborPrefix(netip.PrefixFrom(addr, int(bits)))
	return nil
}

type cborAddr netip.Addr

func (a cborAddr) MarshalCBOR() ([]byte, error) {
	addr := netip.Addr(a).AsSlice()
	return append([]byte{tag8, familyTag(netip.Addr(a)), bytes0 | byte(len(addr))}, addr...), nil
}

func (a *cborAddr) UnmarshalCBOR(data []byte) error {
	size, rest, err := readFamily(data)
	if err != nil {
		return err
	}
	if len(rest) != 1+size || rest[0] != bytes0|byte(size) {
		return fmt.Errorf("an address has %d bytes", size)
	}
	addr, _ := netip.AddrFromSlice(rest[1:])
	*a = cborAddr(addr)
	return nil
}

// Initial bytes of items (RFC 8949, 3).
const (
	uint8Head = 0x18 // an unsigned integer in the next byte
	bytes0    = 0x40 // a byte string; its length, below 24, is added
	array2    = 0x82 // an array of two
	tag8      = 0xd8 // a tag in the next byte
)

// readFamily reads the tag and returns the length of the family's addresses.
func readFamily(data []byte) (size int, rest []byte, err error) {
	if len(data) < 2 || data[0] != tag8 || data[1] != tagIPv4 && data[1] != tagIPv6 {
		return 0, nil, fmt.Errorf("want tag %d or %d", tagIPv4, tagIPv6)
	}
	if data[1] == tagIPv4 {
		return 4, data[2:], nil
	}
	return 16, data[2:], nil
}

func familyTag(a netip.Addr) byte {
	if a.Is4() {
		return tagIPv4
	}
	return tagIPv6
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(a.Bits(), b.Bits())
}

// SortPrefixes brings prefixes into the order of a record, drops the ones that
// others contain, and zeroes host bits. It returns a new slice.
func SortPrefixes(list []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, len(list))
	for i, p := range list {
		sorted[i] = p.Masked()
	}
	slices.SortFunc(sorted, comparePrefixes)
	kept := sorted[:0]
	for _, p := range sorted {
		if len(kept) > 0 && coveredBy(p, kept[len(kept)-1:]) {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// checkPrefixes wants families known, host bits zero, ascending order, and no
// prefix inside another: one set of addresses has one encoding.
func checkPrefixes(list []netip.Prefix) error {
	for i, p := range list {
		switch {
		case !p.IsValid():
			return refuse(BadField, "prefix %d is no prefix", i)
		case p.Addr().Is4In6():
			return refuse(BadField, "prefix %s: write IPv4 as IPv4", p)
		case p != p.Masked():
			return refuse(BadField, "prefix %s has host bits; write %s", p, p.Masked())
		case i > 0 && comparePrefixes(list[i-1], p) >= 0:
			return refuse(BadField, "prefix %s does not stand in ascending order", p)
		case i > 0 && coveredBy(p, list[i-1:i]):
			return refuse(BadField, "prefix %s is inside %s", p, list[i-1])
		}
	}
	return nil
}
