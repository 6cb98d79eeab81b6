package binding

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// RFC 9164: tag 52 is IPv4, tag 54 IPv6. A prefix is [length, address without
// its trailing zero bytes], an address is the plain byte string.
const (
	tagIPv4 = 52
	tagIPv6 = 54
)

type wirePrefix struct {
	_    struct{} `cbor:",toarray"`
	Bits uint8
	Addr []byte
}

// MarshalCBOR and UnmarshalCBOR below make one tagged item of a prefix or address.
type cborPrefix netip.Prefix

func (p cborPrefix) MarshalCBOR() ([]byte, error) {
	prefix := netip.Prefix(p)
	addr := prefix.Addr().AsSlice()
	for len(addr) > 0 && addr[len(addr)-1] == 0 {
		addr = addr[:len(addr)-1]
	}
	return encMode.Marshal(cbor.Tag{Number: familyTag(prefix.Addr()), Content: wirePrefix{Bits: uint8(prefix.Bits()), Addr: addr}})
}

func (p *cborPrefix) UnmarshalCBOR(data []byte) error {
	var tag cbor.RawTag
	if err := decMode.Unmarshal(data, &tag); err != nil {
		return err
	}
	var w wirePrefix
	if err := decMode.Unmarshal(tag.Content, &w); err != nil {
		return err
	}
	size := familyLen(tag.Number)
	if size == 0 || len(w.Addr) > size || int(w.Bits) > 8*size {
		return fmt.Errorf("tag %d with %d address bytes and length %d is no prefix", tag.Number, len(w.Addr), w.Bits)
	}
	var full [16]byte
	copy(full[:], w.Addr)
	addr, _ := netip.AddrFromSlice(full[:size])
	*p = cborPrefix(netip.PrefixFrom(addr, int(w.Bits)))
	return nil
}

type cborAddr netip.Addr

func (a cborAddr) MarshalCBOR() ([]byte, error) {
	addr := netip.Addr(a)
	return encMode.Marshal(cbor.Tag{Number: familyTag(addr), Content: addr.AsSlice()})
}

func (a *cborAddr) UnmarshalCBOR(data []byte) error {
	var tag cbor.RawTag
	if err := decMode.Unmarshal(data, &tag); err != nil {
		return err
	}
	var raw []byte
	if err := decMode.Unmarshal(tag.Content, &raw); err != nil {
		return err
	}
	size := familyLen(tag.Number)
	if size == 0 || len(raw) != size {
		return fmt.Errorf("tag %d with %d bytes is no address", tag.Number, len(raw))
	}
	addr, _ := netip.AddrFromSlice(raw)
	*a = cborAddr(addr)
	return nil
}

func familyTag(a netip.Addr) uint64 {
	if a.Is4() {
		return tagIPv4
	}
	return tagIPv6
}

func familyLen(tag uint64) int {
	switch tag {
	case tagIPv4:
		return 4
	case tagIPv6:
		return 16
	}
	return 0
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
