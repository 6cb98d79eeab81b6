// SPDX-License-Identifier: Apache-2.0

package ifp

import "encoding/binary"

// Right is the ground on which a filter manager may request a filter. Filters of different
// rights are separate, so nobody removes or replaces what another manager requested
// by another right.
type Right uint8

// Rights, as bits.
const (
	ByDestination Right = 1 // the traffic goes to the manager's prefixes
	BySource      Right = 2 // it claims to come from them
)

// Grant is what a border manager tells a patrol about each filter in addition to the filter: the
// rights by which it was requested (one to install, one or both to remove and to
// count), and its owner. The zero value is a filter without an owner, by the
// destination's right.
type Grant struct {
	Rights Right
	Owner  uint32 // 1 to OwnerMax: a network; 0: none
}

// OwnerMax is the highest number of an owner.
const OwnerMax = 1<<31 - 1

// GrantLen is the length of a grant on the wire.
const GrantLen = 8

// AppendGrant appends the wire form: rights, three bytes of zero, owner.
func AppendGrant(b []byte, g Grant) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(g.Rights), 0, 0, 0), g.Owner)
}

// ReadGranted parses filters with their grants (FlagGrants), as ReadFilters does without.
func ReadGranted(list []Filter, grants []Grant, h *Header, body []byte) (_ []Filter, _ []Grant, bad []int, err error) {
	list, grants = list[:0], grants[:0]
	for i := range int(h.Count) {
		f, rest, err := ReadFilter(body)
		if len(rest) < GrantLen {
			return list, grants, nil, ErrMessage
		}
		g := Grant{Rights: Right(rest[0]), Owner: binary.BigEndian.Uint32(rest[4:])}
		if err != nil || g.Rights == 0 || g.Rights&^(ByDestination|BySource) != 0 || g.Owner > OwnerMax {
			bad = append(bad, i)
		}
		list, grants, body = append(list, f), append(grants, g), rest[GrantLen:]
	}
	if len(body) != 0 || h.Count == 0 {
		return list, grants, nil, ErrMessage
	}
	return list, grants, bad, nil
}
