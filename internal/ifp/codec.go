// SPDX-License-Identifier: Apache-2.0

package ifp

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ErrMessage is an invalid message; ErrVersion is one of another version.
var (
	ErrMessage = errors.New("malformed message")
	ErrVersion = errors.New("message of another version")
)

// Header begins every message.
type Header struct {
	Type    Type
	Flags   uint8
	Code    Code
	Count   uint16
	Length  uint16 // of the whole message
	Request uint64
	Nonce   uint64
}

// Put writes the header into the first HeaderLen bytes of b.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1] = Version, byte(h.Type)
	binary.BigEndian.PutUint16(b[2:], h.Length)
	b[4], b[5] = h.Flags, byte(h.Code)
	binary.BigEndian.PutUint16(b[6:], h.Count)
	binary.BigEndian.PutUint64(b[8:], h.Request)
	binary.BigEndian.PutUint64(b[16:], h.Nonce)
}

// ReadHeader reads the header of b, whose length must be the message's own.
func ReadHeader(b []byte) (h Header, err error) {
	if len(b) < HeaderLen {
		return h, ErrMessage
	}
	if b[0] != Version {
		return h, ErrVersion
	}
	h = Header{Type: Type(b[1]), Length: binary.BigEndian.Uint16(b[2:]), Flags: b[4], Code: Code(b[5]),
		Count: binary.BigEndian.Uint16(b[6:]), Request: binary.BigEndian.Uint64(b[8:]),
		Nonce: binary.BigEndian.Uint64(b[16:])}
	if int(h.Length) != len(b) {
		return h, ErrMessage
	}
	return h, nil
}

// AppendFilter appends the wire form of a filter that Check accepts.
func AppendFilter(b []byte, f *Filter) []byte {
	family := byte(6)
	if f.Src.Addr().Is4() {
		family = 4
	}
	b = append(b, family, byte(f.Action), byte(f.Src.Bits()), byte(f.Dst.Bits()))
	b = binary.BigEndian.AppendUint32(b, f.ExpiresS)
	b = append(b, f.FloorLog2, f.WindowS, byte(f.Direction), 0)
	if family == 4 {
		src, dst := f.Src.Addr().As4(), f.Dst.Addr().As4()
		return append(append(b, src[:]...), dst[:]...)
	}
	src, dst := f.Src.Addr().As16(), f.Dst.Addr().As16()
	return append(append(b, src[:]...), dst[:]...)
}

// ReadFilter parses one filter and returns the rest. A filter that parses
// but is invalid has Check's error, and rest is right.
func ReadFilter(b []byte) (f Filter, rest []byte, err error) {
	if len(b) < FilterLen4 {
		return f, nil, ErrMessage
	}
	f = Filter{Action: Action(b[1]), ExpiresS: binary.BigEndian.Uint32(b[4:]), FloorLog2: b[8],
		WindowS: b[9], Direction: Direction(b[10])}
	reserved := b[11]
	var src, dst netip.Addr
	switch b[0] {
	case 4:
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		rest = b[FilterLen4:]
	case 6:
		if len(b) < FilterLen6 {
			return f, nil, ErrMessage
		}
		src, dst = netip.AddrFrom16([16]byte(b[12:28])), netip.AddrFrom16([16]byte(b[28:44]))
		rest = b[FilterLen6:]
	default:
		return f, nil, ErrMessage
	}
	f.Src, f.Dst = netip.PrefixFrom(src, int(b[2])), netip.PrefixFrom(dst, int(b[3]))
	if reserved != 0 {
		return f, rest, ErrFilter
	}
	return f, rest, f.Check()
}

// ReadFilters parses the filters after a request's header into list, which it reuses.
// Invalid filters are kept, with their index in bad.
func ReadFilters(list []Filter, h *Header, body []byte) (_ []Filter, bad []int, err error) {
	list = list[:0]
	for i := range int(h.Count) {
		f, rest, err := ReadFilter(body)
		if rest == nil {
			return list, nil, ErrMessage
		}
		if err != nil {
			bad = append(bad, i)
		}
		list, body = append(list, f), rest
	}
	if len(body) != 0 || h.Count == 0 {
		return list, nil, ErrMessage
	}
	return list, bad, nil
}

// AppendRequest appends a request with its filters.
func AppendRequest(b []byte, t Type, flags uint8, request, nonce uint64, filters []Filter) []byte {
	begin := len(b)
	b = append(b, make([]byte, HeaderLen)...)
	for i := range filters {
		b = AppendFilter(b, &filters[i])
	}
	h := Header{Type: t, Flags: flags, Count: uint16(len(filters)), Length: uint16(len(b) - begin),
		Request: request, Nonce: nonce}
	h.Put(b[begin:])
	return b
}

// AppendNonce appends the answer to a request without a nonce.
func AppendNonce(b []byte, request, nonce uint64) []byte {
	return appendShort(b, Header{Type: Nonce, Request: request, Nonce: nonce})
}

// AppendError appends an answer that refuses the whole request.
func AppendError(b []byte, request, nonce uint64, code Code) []byte {
	return appendShort(b, Header{Type: Error, Code: code, Request: request, Nonce: nonce})
}

func appendShort(b []byte, h Header) []byte {
	h.Length = HeaderLen
	begin := len(b)
	b = append(b, make([]byte, HeaderLen)...)
	h.Put(b[begin:])
	return b
}

// AppendResult appends the answer to INSTALL, REMOVE or CONDITIONAL: a code for
// each filter, in the request's order. sign, if not nil, returns the proof over everything
// before it.
func AppendResult(b []byte, request, nonce uint64, codes []Code, sign func(message []byte) []byte) []byte {
	begin := len(b)
	b = append(b, make([]byte, HeaderLen)...)
	for _, c := range codes {
		b = append(b, byte(c))
	}
	h := Header{Type: Result, Count: uint16(len(codes)), Length: uint16(len(b) - begin), Request: request, Nonce: nonce}
	if sign != nil {
		h.Flags, h.Length = FlagProof, h.Length+ProofLen
	}
	h.Put(b[begin:])
	if sign != nil {
		b = append(b, sign(b[begin:])...)
	}
	return b
}

// ReadResult parses the codes after a RESULT's header, and its proof, which
// is empty without FlagProof.
func ReadResult(h *Header, message []byte) (codes, proof []byte, err error) {
	body := message[HeaderLen:]
	want := int(h.Count)
	if h.Flags&FlagProof != 0 {
		want += ProofLen
	}
	if len(body) != want {
		return nil, nil, ErrMessage
	}
	return body[:h.Count], body[h.Count:], nil
}

// AppendStatistics appends the answer to STATS.
func AppendStatistics(b []byte, request, nonce uint64, stats []Stat) []byte {
	begin := len(b)
	b = append(b, make([]byte, HeaderLen)...)
	for _, s := range stats {
		b = append(b, byte(s.Code), 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, s.ExpiresS)
		b = binary.BigEndian.AppendUint64(b, s.Packets)
		b = binary.BigEndian.AppendUint64(b, s.Bytes)
	}
	h := Header{Type: Statistics, Count: uint16(len(stats)), Length: uint16(len(b) - begin), Request: request, Nonce: nonce}
	h.Put(b[begin:])
	return b
}

// ReadStatistics parses the entries after a STATISTICS header.
func ReadStatistics(h *Header, message []byte) ([]Stat, error) {
	body := message[HeaderLen:]
	if len(body) != int(h.Count)*StatLen {
		return nil, ErrMessage
	}
	stats := make([]Stat, h.Count)
	for i := range stats {
		s := body[i*StatLen:]
		stats[i] = Stat{Code: Code(s[0]), ExpiresS: binary.BigEndian.Uint32(s[4:]),
			Packets: binary.BigEndian.Uint64(s[8:]), Bytes: binary.BigEndian.Uint64(s[16:])}
	}
	return stats, nil
}

// PerMessage is how many filters of a request of this type fit into one datagram, answers included.
func PerMessage(ipv6 bool) int {
	if ipv6 {
		return (MaxDatagram - HeaderLen) / FilterLen6
	}
	return (MaxDatagram - HeaderLen) / StatLen // the answer to STATS is longer than the filters
}

// ProofInput is what a proof of installation signs: that this result answers
// these filters. result is the RESULT message without its proof, filters are their bytes
// in the request.
func ProofInput(result, filters []byte) []byte {
	b := append([]byte("IFP1 proof"), result...)
	return append(b, filters...)
}

// NonceOf is the nonce in a message's header; SetNonce writes it.
func NonceOf(message []byte) uint64 { return binary.BigEndian.Uint64(message[16:]) }

// SetNonce writes the nonce into a message's header.
func SetNonce(message []byte, nonce uint64) { binary.BigEndian.PutUint64(message[16:], nonce) }
