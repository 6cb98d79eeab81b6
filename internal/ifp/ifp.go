// SPDX-License-Identifier: Apache-2.0

// Package ifp is the Internet Filtering Protocol (Terminus, section IV-B): its
// numbers, its messages and the nonce. docs/ifp.md specifies it, and a test compares
// their numbers. It must know nothing of sockets, maps or authority.
package ifp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Version of the protocol.
const Version = 1

// Lengths on the wire, in bytes.
const (
	HeaderLen   = 24
	FilterLen4  = 20
	FilterLen6  = 44
	StatLen     = 24
	ProofLen    = 64 // Ed25519
	MaxDatagram = 1400
	MaxStream   = 65535 // of a message between border manager and patrol
)

// Type of a message.
type Type uint8

// Types. Those of answers have the top bit.
const (
	Install     Type = 0x01
	Remove      Type = 0x02
	Stats       Type = 0x03
	Conditional Type = 0x04
	Nonce       Type = 0x81
	Result      Type = 0x82
	Statistics  Type = 0x83
	Error       Type = 0x84
)

// IsRequest reports whether filter managers may send a type.
func (t Type) IsRequest() bool { return t >= Install && t <= Conditional }

// Flags of a message.
const (
	FlagProof  uint8 = 0x01 // of a request: sign the result. Of a result: a signature follows
	FlagGrants uint8 = 0x02 // border manager to patrol: a grant follows each filter
)

// Code is the result of a request, or of one filter in it.
type Code uint8

// Codes.
const (
	OK            Code = 0
	BadMessage    Code = 1
	BadVersion    Code = 2
	BadFilter     Code = 3
	NotAuthorised Code = 4
	NoPatrol      Code = 5
	TableFull     Code = 6
	Protected     Code = 7
	Busy          Code = 8
	NotFound      Code = 9
	PatrolDown    Code = 10
	StaleNonce    Code = 11
	TooManyShapes Code = 12
	OverShare     Code = 13
)

// names of the numbers, as in docs/ifp.md.
var (
	TypeNames = map[Type]string{Install: "INSTALL", Remove: "REMOVE", Stats: "STATS",
		Conditional: "CONDITIONAL", Nonce: "NONCE", Result: "RESULT", Statistics: "STATISTICS", Error: "ERROR"}
	CodeNames = map[Code]string{OK: "OK", BadMessage: "BAD_MESSAGE", BadVersion: "BAD_VERSION",
		BadFilter: "BAD_FILTER", NotAuthorised: "NOT_AUTHORISED", NoPatrol: "NO_PATROL",
		TableFull: "TABLE_FULL", Protected: "PROTECTED", Busy: "BUSY", NotFound: "NOT_FOUND",
		PatrolDown: "PATROL_DOWN", StaleNonce: "STALE_NONCE", TooManyShapes: "TOO_MANY_SHAPES", OverShare: "OVER_SHARE"}
	ActionNames = map[Action]string{Block: "BLOCK", BlockTS0: "BLOCK_TS0", ClearTS: "CLEAR_TS"}
)

func (t Type) String() string {
	if s, ok := TypeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("type %#x", uint8(t))
}

func (c Code) String() string {
	if s, ok := CodeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// Action of a filter, as core/patrol.h numbers it.
type Action uint8

// Actions.
const (
	Block    Action = 1
	BlockTS0 Action = 2 // block packets without the true-source codepoint
	ClearTS  Action = 3 // forward, but clear the codepoint
)

func (a Action) String() string {
	if s, ok := ActionNames[a]; ok {
		return s
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// Direction of the traffic that a filter is for, as core/patrol.h numbers it.
type Direction uint8

// Directions.
const (
	FromCustomer Direction = 0 // at a border patrol
	ToCustomer   Direction = 1 // at an egress patrol
)

// Filter is one filter. Src and Dst are masked and of one family.
type Filter struct {
	Src, Dst  netip.Prefix
	Action    Action
	Direction Direction
	ExpiresS  uint32 // seconds from its installation; 0: no expiry by time
	FloorLog2 uint8  // expires when it matches less than 2^(n-1) packets/s; 0: no expiry by rate
	WindowS   uint8  // over which that rate is measured
}

// Key identifies a filter: a later installation with the same key replaces
// the earlier one.
type Key struct {
	Src, Dst  netip.Prefix
	Direction Direction
}

// Key of the filter.
func (f *Filter) Key() Key { return Key{f.Src, f.Dst, f.Direction} }

func (f *Filter) String() string {
	side := "from"
	if f.Direction == ToCustomer {
		side = "to"
	}
	return fmt.Sprintf("%s %s -> %s (%s customer)", f.Action, f.Src, f.Dst, side)
}

// Limits of a filter.
const (
	MaxFloorLog2 = 24
	MaxExpiresS  = 7 * 24 * 3600
)

// ErrFilter is the class of the errors of Check.
var ErrFilter = errors.New("filter")

// Check returns why a filter is invalid; nil if it is valid.
func (f *Filter) Check() error {
	switch {
	case !f.Src.IsValid() || !f.Dst.IsValid():
		return fmt.Errorf("%w: source and destination must be prefixes such as 192.0.2.1/32", ErrFilter)
	case f.Src.Addr().Is4() != f.Dst.Addr().Is4():
		return fmt.Errorf("%w: source %s and destination %s are of different families", ErrFilter, f.Src, f.Dst)
	case !isMasked(f.Src) || !isMasked(f.Dst):
		return fmt.Errorf("%w: bits are set beyond a prefix; use %s and %s", ErrFilter, f.Src.Masked(), f.Dst.Masked())
	case f.Src.Addr().Is4In6() || f.Dst.Addr().Is4In6():
		return fmt.Errorf("%w: IPv4-mapped IPv6 does not occur on the wire; write it as IPv4", ErrFilter)
	case f.Dst.Bits() == 0:
		return fmt.Errorf("%w: a destination of /0 covers everyone; name a destination", ErrFilter)
	case f.Action < Block || f.Action > ClearTS || f.Direction > ToCustomer:
		return fmt.Errorf("%w: unknown action or direction", ErrFilter)
	case f.FloorLog2 > MaxFloorLog2 || f.ExpiresS > MaxExpiresS || (f.FloorLog2 != 0) != (f.WindowS != 0):
		return fmt.Errorf("%w: expiry out of range; at most %v, and a floor needs a window", ErrFilter, MaxExpiresS*time.Second)
	}
	return nil
}

func isMasked(p netip.Prefix) bool { return p.IsSingleIP() || p.Masked() == p }

// FloorOf gives the floor for a rate in packets/s, rounded down to a power of two.
func FloorOf(packetsPerS float64) uint8 {
	n := uint8(0)
	for p := 1.0; p <= packetsPerS && n < MaxFloorLog2; p *= 2 {
		n++
	}
	return n
}

// Stat is what a filter has matched.
type Stat struct {
	Code     Code
	ExpiresS uint32 // seconds left; 0: no expiry by time
	Packets  uint64
	Bytes    uint64
}
