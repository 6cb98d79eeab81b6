// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
)

// Code says why a record is refused. The numbers are those of docs/bindings.md
// and travel in the protocol's last message; they are never renumbered.
type Code uint8

const (
	OK           Code = 0
	Malformed    Code = 1  // not CBOR, not COSE_Sign1, or not in the one allowed encoding
	BadVersion   Code = 2  // a version that this program does not support
	BadField     Code = 3  // a field outside its limits
	BadSignature Code = 4  // not signed by its issuer
	Expired      Code = 5  // its validity has ended
	NotYetValid  Code = 6  // its validity has not begun
	NoAuthority  Code = 7  // its issuer is neither an anchor nor a known, valid authority
	Wider        Code = 8  // prefixes that its issuer may not bind
	Revoked      Code = 9  // its issuer has revoked the key
	Stale        Code = 10 // a newer record of the same slot is known
	Duplicate    Code = 11 // this same record is known
	Full         Code = 12 // the store, or the share of its issuer, is full
	TooDeep      Code = 13 // more authorities between it and the anchor than allowed
)

var codeNames = [...]string{"ok", "malformed", "bad-version", "bad-field", "bad-signature", "expired", "not-yet-valid",
	"no-authority", "wider-than-authority", "revoked", "stale", "duplicate", "full", "too-deep"}

// Codes is the number of codes.
const Codes = len(codeNames)

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code-%d", uint8(c))
}

// MarshalText writes the code's name.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Forged reports whether a record refused with this code proves that whoever
// passed it on did not check it: the answer depends on its bytes alone.
func (c Code) Forged() bool { return c == Malformed || c == BadField || c == BadSignature }

// Error is a record's refusal. Its text is formatted only when read: in a
// flood of refused records it never is.
type Error struct {
	Code   Code
	format string // what is wrong and how to fix it, one line
	args   []any
}

func (e *Error) Error() string { return e.Code.String() + ": " + fmt.Sprintf(e.format, e.args...) }

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, format: format, args: args}
}

// Refuse makes the error of a refusal; for the packages that decide about chains.
func Refuse(code Code, format string, args ...any) *Error { return refuse(code, format, args...) }

// CodeOf returns the code of a refusal, OK for nil and Malformed for anything else.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	return Malformed
}
